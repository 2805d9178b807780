"""Live runs: a model on frames as they arrive, recorded or as a Python loop.

Begin with `live_session.py`, then `live_loop.py`, which is `headrace.live`.
`live_batches.py` is independent of the rest.
"""
