"""Profiler of training loops: how long a step waits for data, and what in the loader costs it.

Begin with `loop_profile.py`; `script.py` is what `headrace profile -- python train.py` runs.
The hook of a library (`dataloader_hook.py`) changes without the record (`loop_recorder.py`).
"""
