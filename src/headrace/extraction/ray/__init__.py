"""Workers on the machines of a Ray cluster, instead of local processes.

Begin with `backend.py`, then `actor.py`, the worker.
Only `on_ray` and `sized` of the feature options import the backend, when a run needs it.
"""
