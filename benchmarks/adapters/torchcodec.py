"""torchcodec: one decoder per file and thread, small batches, resized by torchvision.

Full-size frames are written to new memory, so batches are small: four frames at a time took 2.6 ms
of CPU time per 720p frame, 32 at a time 4.0 ms. The decoder's `Resize` transform took 5.0 ms.

For random frames, decoders stay open, and one call reads all frames of a file in a batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torchcodec.decoders import VideoDecoder
from torchvision.transforms.v2.functional import resize

from benchmarks.adapters import Frames, ReadFrames

PACKAGES = ("torchcodec", "torch", "torchvision")
FULL_SIZE_FRAMES = 4


def decode(path: Path, size: tuple[int, int]) -> Iterator[Frames]:
    """Yield frames in exact seek mode, the default, in which the frame count is exact."""
    torch.set_num_threads(1)
    decoder = VideoDecoder(path)
    count = len(decoder)
    for start in range(0, count, FULL_SIZE_FRAMES):
        batch = decoder.get_frames_in_range(start, min(start + FULL_SIZE_FRAMES, count))
        yield _delivered(batch.data, size)


def reader(path: Path, size: tuple[int, int] | None = None) -> ReadFrames:
    """Return a reader with one FFmpeg thread; resizes as in the sequential benchmark."""
    torch.set_num_threads(1)
    decoder = VideoDecoder(path)

    def read(indices: Sequence[int]) -> Sequence[Frames]:
        return list(_delivered(decoder.get_frames_at(list(indices)).data, size))

    return read


def _delivered(frames: torch.Tensor, size: tuple[int, int] | None) -> Frames:
    small = frames if size is None else resize(frames, list(size), antialias=True)
    return small.permute(0, 2, 3, 1).numpy()
