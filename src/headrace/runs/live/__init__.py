"""Live runs: a model on frames as they arrive, the record, and the loop for Python.

Begin with `live_session.py`, then `live_loop.py`, which is `headrace.live`.
Batches (`live_batches.py`) and status (`status_board.py`) change alone.
"""
