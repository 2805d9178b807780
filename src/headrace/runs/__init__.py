"""Runs: a model on videos, from decode to sinks, recorded as a session.

Begin with `run_session.py`, then `run_stages.py`.
`model_setup.py` loads the model; `run_session.py` opens the sinks.
"""
