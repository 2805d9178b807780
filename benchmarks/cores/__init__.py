"""The parts of `bench_cores`: files that are slow to read, and what is kept."""
