"""headrace without looking ahead: each batch decodes what it needs, and holds nothing for later."""

from benchmarks.random_access.headrace import PACKAGES, Delivery
from benchmarks.random_access.way import Task

__all__ = ["PACKAGES", "deliver"]


def deliver(task: Task) -> Delivery:
    """A window of one request."""
    return Delivery(task, lookahead=1)
