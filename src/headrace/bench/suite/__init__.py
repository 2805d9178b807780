"""A suite: all benchmarks on the user's own videos, one after the other, as one report."""
