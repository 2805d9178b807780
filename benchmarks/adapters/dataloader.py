"""Stock DataLoader: two workers, one PyAV seek per frame or clip.

The dataset opens the file, seeks to the first requested frame, decodes to the last, converts the
requested frames at full size and resizes each by a transform. PyAV makes the only full-size copy.
"""

from fractions import Fraction
from pathlib import Path

import av
import torch
from av.container import InputContainer
from av.video.stream import VideoStream
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import resize

from benchmarks.adapters import Delivery, RandomAccess

PACKAGES = ("av", "torch", "torchvision")
WORKERS = 2


class Clips(Dataset[torch.Tensor]):
    """Map from (video, ascending indices) to frames."""

    def __init__(
        self, paths: list[Path], size: tuple[int, int], *, keeps_files: bool = False
    ) -> None:
        self._paths = paths
        self._size = size
        self._keeps_files = keeps_files
        self._kept: dict[int, InputContainer] = {}

    def __getitem__(self, key: tuple[int, list[int]]) -> torch.Tensor:
        """Return uint8 [T, 3, H, W]; for a single frame, [3, H, W]."""
        video, indices = key
        if not self._keeps_files:
            with av.open(str(self._paths[video])) as container:
                return self._read(container, indices)
        if video not in self._kept:
            self._kept[video] = av.open(str(self._paths[video]))
        return self._read(self._kept[video], indices)

    def _read(self, container: InputContainer, indices: list[int]) -> torch.Tensor:
        stream = container.streams.video[0]
        wanted = [_pts_of(stream, index) for index in indices]
        frames: dict[int, torch.Tensor] = {}
        container.seek(wanted[0], stream=stream)
        for frame in container.decode(stream):
            if frame.pts in wanted:
                full = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
                frames[frame.pts] = resize(full, list(self._size), antialias=True)
            if frame.pts is not None and frame.pts >= wanted[-1]:
                break
        small = [frames[pts] for pts in wanted]
        return torch.stack(small) if len(small) > 1 else small[0]


def random_access(task: RandomAccess) -> Delivery:
    """Return batches of (video, indices); workers start with the first batch."""
    clips = Clips(list(task.paths), task.size, **task.options)
    length, _ = task.clip or (1, 1)
    batches = (
        [(int(clip[0, 0]), clip[:, 1].tolist()) for clip in requests.reshape(-1, length, 2)]
        for requests in task.requests()
    )
    loader = DataLoader(clips, batch_sampler=batches, num_workers=WORKERS)
    return Delivery(frames.flatten(0, -4).permute(0, 2, 3, 1).numpy() for frames in loader)


def _pts_of(stream: VideoStream, index: int) -> int:
    """Return the pts of a frame in a stream with a constant frame rate."""
    assert stream.average_rate is not None
    assert stream.time_base is not None
    return (stream.start_time or 0) + round(
        Fraction(index) / stream.average_rate / stream.time_base
    )
