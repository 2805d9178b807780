"""Workers on the machines of a Ray cluster, in place of processes on this one.

Begin with `backend.py`, then `actor.py`, the worker.
Extraction knows only the backend, so all of it may change alone.
"""
