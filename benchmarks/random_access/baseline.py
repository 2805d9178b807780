"""The exercise's baseline: a stock DataLoader, two workers, a PyAV seek for each frame.

As a plain loader is written: full-size RGB, then a transform that resizes. Each worker keeps the
files it has opened, which is kinder than opening one for each frame.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import resize

from benchmarks.random_access.way import Cost, Task

PACKAGES = ("av", "torch", "torchvision")
WORKERS = 2


class Frames(Dataset[torch.Tensor]):
    """Maps (video, index) to a frame."""

    def __init__(self, paths: list[Path], size: tuple[int, int]) -> None:
        self._paths = paths
        self._size = size
        self._opened = cache(lambda video: av.open(str(self._paths[video])))

    def __getitem__(self, key: tuple[int, int]) -> torch.Tensor:
        """Return uint8 [3, H, W]."""
        video, index = key
        container = self._opened(video)
        stream = container.streams.video[0]
        assert stream.average_rate is not None
        assert stream.time_base is not None
        ticks = Fraction(index) / stream.average_rate / stream.time_base
        pts = (stream.start_time or 0) + round(ticks)
        container.seek(pts, stream=stream)
        for frame in container.decode(stream):
            if frame.pts is not None and frame.pts >= pts:
                full = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
                return resize(full, list(self._size), antialias=True)
        raise LookupError(f"no frame {index} in {self._paths[video]}")


class _Delivery:
    warm_up = 0

    def __init__(self, task: Task) -> None:
        self._task = task

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch."""
        batches = ([(int(v), int(i)) for v, i in requests] for requests in self._task.requests())
        dataset = Frames(list(self._task.paths), self._task.size)
        loader = DataLoader(dataset, batch_sampler=batches, num_workers=WORKERS)
        for frames in loader:
            yield frames.permute(0, 2, 3, 1).numpy()

    def cost(self) -> Cost:
        """Return nothing: it is spread over processes."""
        return Cost()


def deliver(task: Task) -> _Delivery:
    """Start workers with the first batch."""
    return _Delivery(task)
