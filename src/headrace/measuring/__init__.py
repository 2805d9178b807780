"""Measurements in interleaved repetitions: time, decode counts, noise checks.

Begin with `interleaved.py`, then `decode_counts.py`.
Benchmarks and the planner use all files; `loader_adapters.py` imports PyTorch.
"""
