"""Models: names, weights, device, memory, outputs.

Begin with `load.py`, then `model.py`; `catalogue.py` lists the names.
`outputs.py` (results) and the face detector (`mtcnn.py`) are independent of the rest.
"""
