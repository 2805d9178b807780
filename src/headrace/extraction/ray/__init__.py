"""Workers on the machines of a Ray cluster, instead of local processes.

Begin with `backend.py`, then `actor.py`, the worker.
Other packages use only the backend.
"""
