"""Extraction of frames, features and proxies from many videos: each decoded once, resumable.

Begin with `extraction.py`, the job, then `frame_extraction.py`, its simplest kind.
A kind is one subclass of `Extraction`; an option of frames is one field of their options.
"""
