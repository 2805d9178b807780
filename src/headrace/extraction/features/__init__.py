"""Features of frames and clips: the output of a model's layer for each, chunk by chunk.

Begin with `feature_extraction.py`, then `feature_worker.py`.
Export formats (`export.py`) and pooling (`aggregate.py`) are independent of the rest.
"""
