"""Preprocessing: decoded uint8 frames to the input tensor of a model.

Begin with `spec.py`, then `operations.py`, then `levels.py`.
"""
