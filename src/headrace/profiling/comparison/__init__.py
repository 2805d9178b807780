"""Comparison of recorded sessions: differences and their confidence intervals.

Begin with `comparison.py`, then `estimate.py`, the statistics.
The list of compared figures (`figures.py`) changes alone.
"""
