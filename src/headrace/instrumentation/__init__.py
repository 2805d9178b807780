"""Profiler of training loops: how long a step waits for data, and what in the loader costs it."""
