"""Timing a loop over anything that can be iterated, from outside."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from headrace.watching.loop import LoopWatch

Batch = TypeVar("Batch")


def timed(loader: Iterable[Batch], watch: LoopWatch) -> Iterator[Batch]:
    """Yield what `loader` gives, and tell `watch` of each request, batch and end."""
    watch.begins()
    batches = iter(loader)
    while True:
        watch.asks()
        try:
            batch = next(batches)
        except StopIteration:
            watch.ends()
            return
        watch.gets(batch)
        yield batch
