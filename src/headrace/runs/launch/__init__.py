"""Launches: several runs at once, each a process, described by one file.

Begin with `launching.py`; `launch_config.py` is the file.
The command and the page know only its record (`launch_record.py`).
"""
