"""Comparison of recorded sessions: differences and their confidence intervals.

Begin with `comparison.py`; `estimate.py` has the statistics, `figures.py` the compared figures.
"""
