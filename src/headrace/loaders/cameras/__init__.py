"""Camera loaders: clips of synchronized cameras as streams; each frame is decoded once.

Begin with `camera_loader.py`, then `camera_engine.py`.
A dataset format is one module, such as `nuscenes_clips.py`.
"""
