"""Benchmarks of `headrace bench`: measurement, table, charts and answer on the user's videos."""
