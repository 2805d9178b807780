"""Retraining: a new head of a model on labelled videos, recorded as a session.

Begin with `retrain_session.py`, then `learner.py`, which holds the training step.
Labels (`frame_labels.py`) change alone.
"""
