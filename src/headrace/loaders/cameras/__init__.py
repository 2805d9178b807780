"""Camera loaders: clips of synchronized cameras as streams; all readers share one decode.

Begin with `camera_loader.py`, then `camera_engine.py`.
A layout of files is one file, as `nuscenes_clips.py` is.
"""
