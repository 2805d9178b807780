"""headrace: the loaders, with what they take from the budget; `naive` looks no further than now."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.random_access.way import Cost, Task
from headrace import ClipLoader, FrameLoader

PACKAGES = ("av", "torch")


class Delivery:
    """The loader's batches, checked to be what was asked for."""

    def __init__(self, task: Task, *, lookahead: int | None = None) -> None:
        self._task = task
        self._loader = _loader(task, lookahead)
        self.warm_up = self._loader.lookahead

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch."""
        requests = self._task.requests()
        with self._loader as loader:
            while True:
                for batch in loader:
                    video = batch.video.reshape(-1, *[1] * (batch.index.ndim - 1))
                    delivered = torch.stack([video.expand_as(batch.index), batch.index], -1)
                    assert (next(requests) == delivered.reshape(-1, 2).numpy()).all()
                    frames = batch.frames.movedim(-3, -1).numpy()
                    yield frames.reshape(-1, *frames.shape[-3:])

    def cost(self) -> Cost:
        """Return the loader's own counts."""
        found = self._loader.statistics
        return Cost(found.frames_decoded, found.seeks, found.opens)


def deliver(task: Task) -> Delivery:
    """Look as far ahead as the budget allows."""
    return Delivery(task)


def _loader(task: Task, lookahead: int | None) -> FrameLoader:
    if task.clip is None:
        return FrameLoader(
            task.paths,
            batch_size=task.batch_size,
            size=task.size,
            sampling=task.sampling,
            workers=task.workers,
            memory_budget=task.memory_budget,
            hold=task.hold,
            lookahead=lookahead,
        )
    return ClipLoader(
        task.paths,
        clips=task.sampling,
        batch_size=task.batch_size,
        size=task.size,
        workers=task.workers,
        memory_budget=task.memory_budget,
        hold=task.hold,
        lookahead=lookahead,
    )
