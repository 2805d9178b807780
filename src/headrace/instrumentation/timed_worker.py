"""Cost of each batch of a DataLoader, measured in the process that loads it and sent with it.

Only `worker_init_fn` is replaced, while workers start. Dataset, collate function and sampler are
the user's objects in every process.
"""

import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from torch.utils.data import dataloader

from headrace.runtime.clock import SYSTEM_CLOCK, ThreadMeter, ThreadTimes, processor_ns

IN_LOOP = -1
"""Worker id of batches that the loop's process loads."""
_NO_TIMES: Final = ThreadTimes(0, 0)


class BatchCost(NamedTuple):
    """Cost of one batch in the process that loaded it."""

    fetch_ns: int
    """Time to read the samples: `__getitem__`, or `next` of an iterable dataset."""
    collate_ns: int
    """Time to collate the samples to a batch."""
    cpu_ns: int
    """CPU time of fetch and collate."""
    ready_ns: int
    """Time at which the batch was ready, on the clock that all processes share."""
    samples: int
    worker: int = IN_LOOP
    """Worker id, or `IN_LOOP`."""
    process_id: int | None = None
    fetch_core_wait_ns: int | None = None
    """Part of `fetch_ns` in which the thread waited for a core; None: not known."""
    collate_core_wait_ns: int | None = None
    """Part of `collate_ns` in which the thread waited for a core; None: not known."""


class TimedBatch(NamedTuple):
    """A batch with its cost; a named tuple, because memory pinning handles it."""

    batch: Any
    cost: BatchCost


class TimedFetcher:
    """Fetcher of a DataLoader that returns each batch with its cost."""

    def __init__(self, fetcher: Any, worker: int) -> None:
        """Wrap `fetcher`, in the process of `worker`."""
        self._fetcher = fetcher
        self._worker = worker
        self._meter = ThreadMeter()
        self._collate = fetcher.collate_fn = _TimedCollate(fetcher.collate_fn, self._meter)

    def fetch(self, index: Any) -> TimedBatch:
        """Return the batch of `index` with its cost."""
        start_ns, start_cpu_ns = SYSTEM_CLOCK.now_ns(), processor_ns()
        self._meter.take()
        collate = self._collate
        collate.spent_ns, collate.before, collate.inside = 0, _NO_TIMES, _NO_TIMES
        batch = self._fetcher.fetch(index)
        ready_ns, after = SYSTEM_CLOCK.now_ns(), self._meter.take()
        cost = BatchCost(
            fetch_ns=ready_ns - start_ns - collate.spent_ns,
            collate_ns=collate.spent_ns,
            cpu_ns=processor_ns() - start_cpu_ns,
            ready_ns=ready_ns,
            samples=len(index) if isinstance(index, list | tuple) else 1,
            worker=self._worker,
            process_id=os.getpid(),
            fetch_core_wait_ns=_core_wait_ns(collate.before, after),
            collate_core_wait_ns=_core_wait_ns(collate.inside),
        )
        return TimedBatch(batch, cost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fetcher, name)


class _TimedCollate:
    """Collate function that records the times of its last call."""

    def __init__(self, collate: Callable[[Any], Any], meter: ThreadMeter) -> None:
        self._collate, self._meter = collate, meter
        self.spent_ns = 0
        """Duration of the call."""
        self.before: ThreadTimes | None = _NO_TIMES
        """Times of the thread from the last reading of the meter to the call."""
        self.inside: ThreadTimes | None = _NO_TIMES
        """Times of the thread during the call."""

    def __call__(self, samples: Any) -> Any:
        start_ns, self.before = SYSTEM_CLOCK.now_ns(), self._meter.take()
        try:
            return self._collate(samples)
        finally:
            self.inside = self._meter.take()
            self.spent_ns = SYSTEM_CLOCK.now_ns() - start_ns


def _core_wait_ns(*times: ThreadTimes | None) -> int | None:
    waits_ns = [thread and thread.core_wait_ns for thread in times]
    return None if None in waits_ns else sum(wait_ns or 0 for wait_ns in waits_ns)


class TimedStart:
    """`worker_init_fn` that turns on timing in a worker, then calls the user's function."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        """Wrap the user's `worker_init_fn`."""
        self._worker_init_fn = worker_init_fn

    def __call__(self, worker: int) -> None:
        """Turn on timing; called in the worker before its fetcher is created."""
        kinds = dataloader._DatasetKind
        create = kinds.create_fetcher

        def create_timed(*arguments: Any, **keywords: Any) -> TimedFetcher:
            return TimedFetcher(create(*arguments, **keywords), worker)  # type: ignore[no-untyped-call]

        kinds.create_fetcher = staticmethod(create_timed)  # type: ignore[method-assign]
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)
