"""Comparison of the frames of every access method with a plain linear decode of the file."""
