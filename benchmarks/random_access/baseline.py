"""The exercise's baseline: a stock DataLoader, two workers, a PyAV seek for each frame.

As a plain dataset is written: open the file, seek, decode up to the frame, convert it at full size,
and let a transform resize it.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.container import InputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import resize

from benchmarks.random_access.way import Cost, Task

PACKAGES = ("av", "torch", "torchvision")
WORKERS = 2


class Frames(Dataset[torch.Tensor]):
    """Maps (video, index) to a frame."""

    def __init__(self, paths: list[Path], size: tuple[int, int], *, keeps_files: bool) -> None:
        self._paths = paths
        self._size = size
        self._keeps_files = keeps_files
        self._kept: dict[int, InputContainer] = {}

    def __getitem__(self, key: tuple[int, int]) -> torch.Tensor:
        """Return uint8 [3, H, W]."""
        video, index = key
        if self._keeps_files:
            if video not in self._kept:
                self._kept[video] = av.open(str(self._paths[video]))
            return self._read(self._kept[video], index)
        with av.open(str(self._paths[video])) as container:
            return self._read(container, index)

    def _read(self, container: InputContainer, index: int) -> torch.Tensor:
        stream = container.streams.video[0]
        pts = pts_of(stream, index)
        container.seek(pts, stream=stream)
        for frame in container.decode(stream):
            if frame.pts is not None and frame.pts >= pts:
                full = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
                small: torch.Tensor = resize(full, list(self._size), antialias=True)
                return small
        raise LookupError(f"no frame {index} in {container.name}")


def pts_of(stream: VideoStream, index: int) -> int:
    """Return the pts of a frame of a stream whose frame rate never changes."""
    assert stream.average_rate is not None
    assert stream.time_base is not None
    return (stream.start_time or 0) + round(
        Fraction(index) / stream.average_rate / stream.time_base
    )


class Loader:
    """The batches of a stock DataLoader."""

    warm_up = 0

    def __init__(self, dataset: Dataset[torch.Tensor], batches: Iterator[list[Any]]) -> None:
        self._loader = DataLoader(dataset, batch_sampler=batches, num_workers=WORKERS)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch; workers start with the first one."""
        for frames in self._loader:
            yield frames.flatten(0, -4).permute(0, 2, 3, 1).numpy()

    def cost(self) -> Cost:
        """Return nothing: it is spread over processes."""
        return Cost()


def deliver(task: Task, *, keeps_files: bool = False) -> Loader:
    """Batches of (video, index)."""
    batches = ([(int(v), int(i)) for v, i in requests] for requests in task.requests())
    return Loader(Frames(list(task.paths), task.size, keeps_files=keeps_files), batches)
