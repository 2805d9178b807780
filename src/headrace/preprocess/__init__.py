"""Preprocessing: decoded uint8 frames to the input tensor of a model.

Begin with `spec.py`, the input of a model, then `levels.py`.
"""
