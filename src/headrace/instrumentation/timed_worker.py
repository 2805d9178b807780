"""What a batch of a DataLoader cost where it was made, carried along with the batch.

Nothing of the user's is replaced but `worker_init_fn`, for as long as workers are started: dataset,
collate function and sampler are the user's own objects in every process.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from torch.utils.data import dataloader

from headrace.runtime.clock import SYSTEM_CLOCK, processor_ns

IN_LOOP = -1
"""In place of a worker's number: the process of the loop."""


class TimedBatch(NamedTuple):
    """A batch on its way to the loop. A named tuple, so that pinning memory goes through it."""

    batch: Any
    fetch_ns: int
    """The dataset was read from: `__getitem__`, or the next of an iterable one."""
    collate_ns: int
    """Samples became a batch."""
    processor_ns: int
    """Processor time of both."""
    made_ns: int
    """When it was ready; the clock is the same in all processes of a machine."""
    samples: int
    worker: int
    """Its number; `IN_LOOP` where the loop made the batch itself."""
    process_id: int
    """Of whoever made it."""


class TimedFetcher:
    """A fetcher of a DataLoader whose batches carry what they cost; else as the one it wraps."""

    def __init__(self, fetcher: Any, worker: int) -> None:
        """Time `fetcher` in the process of `worker`."""
        self._fetcher = fetcher
        self._worker = worker
        self._collate = fetcher.collate_fn = _TimedCollate(fetcher.collate_fn)

    def fetch(self, index: Any) -> TimedBatch:
        """Return the batch of `index`, timed."""
        began_ns, began_processor_ns = SYSTEM_CLOCK.now_ns(), processor_ns()
        self._collate.spent_ns = 0
        batch = self._fetcher.fetch(index)
        made_ns = SYSTEM_CLOCK.now_ns()
        return TimedBatch(
            batch=batch,
            fetch_ns=made_ns - began_ns - self._collate.spent_ns,
            collate_ns=self._collate.spent_ns,
            processor_ns=processor_ns() - began_processor_ns,
            made_ns=made_ns,
            samples=len(index) if isinstance(index, list | tuple) else 1,
            worker=self._worker,
            process_id=os.getpid(),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fetcher, name)


class _TimedCollate:
    """A collate function, and how long its last call took."""

    def __init__(self, own: Callable[[Any], Any]) -> None:
        self._own = own
        self.spent_ns = 0

    def __call__(self, samples: Any) -> Any:
        began_ns = SYSTEM_CLOCK.now_ns()
        try:
            return self._own(samples)
        finally:
            self.spent_ns = SYSTEM_CLOCK.now_ns() - began_ns


class TimedStart:
    """A `worker_init_fn` that lets a worker time its batches, then does what the user's does."""

    def __init__(self, own: Callable[[int], None] | None) -> None:
        """Stand in for `own`."""
        self._own = own

    def __call__(self, worker: int) -> None:
        """Called in the worker, before its fetcher is made."""
        kinds = dataloader._DatasetKind
        make = kinds.create_fetcher

        def timed(*arguments: Any, **keywords: Any) -> TimedFetcher:
            return TimedFetcher(make(*arguments, **keywords), worker)  # type: ignore[no-untyped-call]

        kinds.create_fetcher = staticmethod(timed)  # type: ignore[method-assign]
        if self._own is not None:
            self._own(worker)
