"""Launches: several runs at once, each in its own process, described by one file.

Begin with `launching.py`.
The command reads the file; command and page use only the record (`launch_record.py`).
"""
