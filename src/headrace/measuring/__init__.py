"""Interleaved measurement: time, decode counts, noise checks."""
