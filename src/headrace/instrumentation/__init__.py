"""Profiler of training loops: the wait of a step for data, and the cost of each batch.

Begin with `loop_profile.py`; `headrace profile -- python train.py` runs `script.py`.
`dataloader_hook.py` hooks into PyTorch, and `loop_recorder.py` records the loop.
"""
