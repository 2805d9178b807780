"""Parts of the benchmarks of `headrace extract`."""
