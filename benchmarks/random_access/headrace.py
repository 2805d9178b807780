"""headrace: the loaders, with what they take from the budget; `naive` looks no further than now."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.random_access.way import Cost, Task
from headrace import ClipLoader, FrameLoader, RandomClips
from headrace.sampling.order import Sampler

PACKAGES = ("av", "torch")


class Delivery:
    """The loader's batches, checked to be what was asked for."""

    def __init__(
        self, task: Task, *, sampling: Sampler | None = None, lookahead: int | None = None
    ) -> None:
        options = {
            "batch_size": task.batch_size,
            "size": task.size,
            "workers": task.workers,
            "memory_budget": task.memory_budget,
            "lookahead": lookahead,
        }
        if task.clip is None:
            self._loader = FrameLoader(task.paths, sampling=sampling, **options)
        else:
            frames, stride = task.clip
            clips = RandomClips(num_frames=frames, stride=stride, each_once="starts")
            self._loader = ClipLoader(task.paths, clips=clips, **options)
        self._task = task if sampling is None else None
        self.warm_up = self._loader.lookahead

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch."""
        requests = None if self._task is None else self._task.requests()
        with self._loader as loader:
            while True:
                for batch in loader:
                    frames = batch.frames.movedim(-3, -1).numpy()
                    if requests is not None:
                        video = batch.video.reshape(-1, *[1] * (batch.index.ndim - 1))
                        video = video.expand_as(batch.index)
                        asked = next(requests)
                        assert (asked[:, 0] == video.flatten().numpy()).all()
                        assert (asked[:, 1] == batch.index.flatten().numpy()).all()
                    yield frames.reshape(-1, *frames.shape[-3:])

    def cost(self) -> Cost:
        """Return the loader's own counts."""
        found = self._loader.statistics
        return Cost(found.frames_decoded, found.seeks, found.opens)


def deliver(task: Task) -> Delivery:
    """Look as far ahead as the budget allows."""
    return Delivery(task)
