"""Frames and features out of many videos, for good: each decoded once, in order, on all cores."""
