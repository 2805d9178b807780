"""Workers on the machines of a Ray cluster, instead of local processes.

Begin with `backend.py`, then `actor.py`, the worker.
Only `features/feature_options.py` imports the backend, when a run needs it.
"""
