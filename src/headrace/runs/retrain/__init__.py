"""Retraining: a new head of a model on labelled videos, recorded as a session.

Begin with `retrain_session.py`, then `trainer.py`.
Labels (`frame_labels.py`) and the head's learner (`learner.py`) change alone.
"""
