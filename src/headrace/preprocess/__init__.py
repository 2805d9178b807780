"""Preprocessing: from decoded uint8 frames to the tensor that a model takes.

Begin with `spec.py`, then `operations.py`.
The levels of work are in `levels.py`.
"""
