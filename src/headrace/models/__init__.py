"""Models: loading, weights, labels, memory, and making them ready to run.

Begin with `load.py`, then `model.py`; `catalogue.py` lists the names.
Output forms (`outputs.py`) and the face models (`faces.py`, `mtcnn.py`) change alone.
"""
