"""Measurements in interleaved repetitions: time, decode counts, noise checks.

Begin with `interleaved.py`, then `steady_state.py`.
Benchmarks and the planner lean on all of it; `design_effect.py` and `seek_baseline.py` stand
alone.
"""
