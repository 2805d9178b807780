"""headrace with bursts: the only way here that samples otherwise, each frame once in an epoch."""

from benchmarks.random_access.headrace import PACKAGES, Delivery
from benchmarks.random_access.way import Task
from headrace import Bursts

__all__ = ["PACKAGES", "deliver"]


def deliver(task: Task) -> Delivery:
    """Bursts of 8, so that frames of one lie 128 slots apart."""
    return Delivery(task, sampling=Bursts(frames_per_burst=8, lanes=task.batch_size))
