"""Measurements in interleaved repetitions: time, decode counts, noise checks.

Begin with `interleaved.py`, then `steady_state.py`.
Benchmarks and the planner use all files; `seek_baseline.py` is independent.
"""
