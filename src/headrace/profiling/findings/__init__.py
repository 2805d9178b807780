"""Findings about a session: what bounds it, and what to change.

Begin with `verdict.py`, which asks all others in order.
A finding is one function; an advice text is one entry of `advice.py`.
"""
