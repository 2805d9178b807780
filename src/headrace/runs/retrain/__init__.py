"""Retraining: a new head of a model, trained on labelled videos, recorded as a session.

Begin with `retrain_session.py`, then `learner.py`, which has the training step.
`frame_labels.py` (labels) is independent of the rest.
"""
