"""Names of `bench/benchmark.py` as they were, until all benchmarks take the new ones."""

from headrace.bench.benchmark import BenchmarkRecord as ExperimentRecord
from headrace.bench.benchmark import make_folder
from headrace.bench.benchmark import write_benchmark as write_experiment

__all__ = ["ExperimentRecord", "make_folder", "write_experiment"]
