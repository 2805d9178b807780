"""Extraction of frames, features and proxies from many videos: each decoded once, resumable.

Begin with `extraction.py`, the base class, then `frame_extraction.py`, the simplest kind.
A kind of extraction is one subclass of `Extraction`. An option is one field of its options class.
"""
