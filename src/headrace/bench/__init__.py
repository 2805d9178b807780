"""Benchmarks that a user repeats on videos and a machine of their own: run, rows, chart."""
