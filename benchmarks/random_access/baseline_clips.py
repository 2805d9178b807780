"""A stock DataLoader of clips: two workers that keep files open, a PyAV seek for each clip.

As a plain dataset of clips is written: seek to the first frame, decode to the last, convert those
of the clip at full size, and let a transform resize them together.
"""

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import torch
from av.container import InputContainer
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import resize

from benchmarks.random_access.baseline import PACKAGES, WORKERS, pts_of
from benchmarks.random_access.way import Cost, Task

__all__ = ["PACKAGES", "deliver"]


class Clips(Dataset[torch.Tensor]):
    """Maps (video, index of each frame) to a clip."""

    def __init__(self, paths: list[Path], size: tuple[int, int]) -> None:
        self._paths = paths
        self._size = size
        self._kept: dict[int, InputContainer] = {}

    def __getitem__(self, key: tuple[int, list[int]]) -> torch.Tensor:
        """Return uint8 [T, 3, H, W]."""
        video, indices = key
        if video not in self._kept:
            self._kept[video] = av.open(str(self._paths[video]))
        container = self._kept[video]
        stream = container.streams.video[0]
        wanted = [pts_of(stream, index) for index in indices]
        found: dict[int, torch.Tensor] = {}
        container.seek(wanted[0], stream=stream)
        for frame in container.decode(stream):
            if frame.pts in wanted:
                found[frame.pts] = torch.from_numpy(frame.to_ndarray(format="rgb24"))
            if frame.pts is not None and frame.pts >= wanted[-1]:
                break
        full = torch.stack([found[pts] for pts in wanted]).permute(0, 3, 1, 2)
        small: torch.Tensor = resize(full, list(self._size), antialias=True)
        return small


class Loader:
    """The batches of a stock DataLoader."""

    warm_up = 0

    def __init__(self, task: Task) -> None:
        self._task = task

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch."""
        assert self._task.clip is not None
        length, _ = self._task.clip
        batches = (
            [(int(clip[0, 0]), clip[:, 1].tolist()) for clip in requests.reshape(-1, length, 2)]
            for requests in self._task.requests()
        )
        dataset = Clips(list(self._task.paths), self._task.size)
        for clips in DataLoader(dataset, batch_sampler=batches, num_workers=WORKERS):
            yield clips.flatten(0, 1).permute(0, 2, 3, 1).numpy()

    def cost(self) -> Cost:
        """Return nothing: it is spread over processes."""
        return Cost()


def deliver(task: Task) -> Loader:
    """Start workers with the first batch."""
    return Loader(task)
