"""Suite: all benchmarks on the user's videos, as one report."""
