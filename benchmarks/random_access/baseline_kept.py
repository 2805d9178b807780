"""The exercise's baseline, but that each worker keeps the files it has opened."""

from benchmarks.random_access.baseline import PACKAGES, Loader
from benchmarks.random_access.way import Task

__all__ = ["PACKAGES", "deliver"]


def deliver(task: Task) -> Loader:
    """Start workers with the first batch."""
    return Loader(task, keeps_files=True)
