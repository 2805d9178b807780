"""Findings about a session: what bounds it, and what to change.

Begin with `verdict.py`, which calls all others in order.
A finding is one function; advice for a run is one entry of the table in `advice.py`.
"""
