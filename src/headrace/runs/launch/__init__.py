"""Launches: several runs at once, each a process, described by one file.

Begin with `launching.py`.
The command, which reads the file, and the page know only its record (`launch_record.py`).
"""
