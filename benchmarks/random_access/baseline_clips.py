"""A stock DataLoader of clips: two workers that keep files open, a PyAV seek for each clip.

As a plain dataset of clips is written: seek to the first frame, decode to the last, convert those
of the clip at full size, and let a transform resize them together.
"""

from pathlib import Path

import av
import torch
from av.container import InputContainer
from torch.utils.data import Dataset
from torchvision.transforms.v2.functional import resize

from benchmarks.random_access.baseline import PACKAGES, Loader, pts_of
from benchmarks.random_access.way import Task

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


def deliver(task: Task) -> Loader:
    """Batches of (video, index of each frame)."""
    assert task.clip is not None
    length, _ = task.clip
    batches = (
        [(int(clip[0, 0]), clip[:, 1].tolist()) for clip in requests.reshape(-1, length, 2)]
        for requests in task.requests()
    )
    return Loader(Clips(list(task.paths), task.size), batches)
