"""Decode plans: from requested frames to decode jobs. Pure functions.

Begin with `lookahead.py`, then `gop_ranges.py`.
The grouping may change alone, as the frames delivered stay equal; tests check that.
"""
