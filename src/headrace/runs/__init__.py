"""Runs: a model on videos, from decode to sinks, recorded as a session.

Begin with `run_session.py`, then `run_stages.py`.
`task.py` chooses the model and the sinks; a new sink needs no other change here.
"""
