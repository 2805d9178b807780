"""Runs: a model on videos, from decode to sinks, recorded as a session.

Begin with `run_session.py`, then `run_stages.py`.
The tasks (classes, clips, boxes) are in `task.py`; a sink needs no change here.
"""
