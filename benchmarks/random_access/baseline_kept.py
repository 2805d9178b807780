"""The exercise's baseline, but that each worker keeps the files it has opened."""

from benchmarks.random_access import baseline
from benchmarks.random_access.baseline import PACKAGES, Loader
from benchmarks.random_access.way import Task

__all__ = ["PACKAGES", "deliver"]


def deliver(task: Task) -> Loader:
    """Batches of (video, index)."""
    return baseline.deliver(task, keeps_files=True)
