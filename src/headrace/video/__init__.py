"""Videos as values: their source, packet index, timestamps, frames and pixels.

Begin with `source.py`, then `stream_index.py`.
The index on disk is versioned: a new field needs a new version.
"""
