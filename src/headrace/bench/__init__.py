"""Benchmarks of `headrace bench` on the user's videos: measurement, table, charts and answer."""
