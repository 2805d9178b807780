"""Decode plans: from requested frames to decode jobs. Pure functions.

Begin with `lookahead.py`, then `chunks.py`.
Plans decide the grouping of decode jobs, never which frames are delivered.
"""
