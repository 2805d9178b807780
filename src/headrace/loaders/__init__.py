"""Loaders, datasets and samplers that bring frames and clips to a training loop.

Begin with `frame_loader.py` and `planned_loader.py`, then `resumable.py` and `decode_engine.py`.
Manifests and saved states (`epochs.py`) are kept by users: their formats change only with a
version.
"""
