"""Features of frames and clips: what a layer of a model gives for each, chunk by chunk.

Begin with `feature_extraction.py`, then `feature_worker.py`.
The export formats (`export.py`) and the aggregates (`aggregate.py`) change without the rest.
"""
