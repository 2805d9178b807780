"""Benchmarks of `headrace bench`: measurement, table, charts and answer on the user's videos.

Begin with `benchmark.py`, then `decode.py` as one of them; `variant_benchmark.py` is the kind
*which is fastest*.
A benchmark is one file plus its line in `registry.py`, and leans on no other. Work that needs
PyTorch may have a second file, which `deferred` imports when the benchmark runs.
"""
