"""torchcodec: a decoder per file and thread, small batches, resized by torchvision.

Small batches, because full-size pictures are written to fresh memory: four at a time took 2.6 ms
of CPU per 720p frame, 32 at a time 4.0 ms. The decoder's own `Resize` transform took 5.0 ms.

For random frames decoders are kept, and a batch asks each file once for all its frames.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torchcodec.decoders import VideoDecoder
from torchvision.transforms.v2.functional import resize

from benchmarks.adapters import FrameAt, GroupedByFile, RandomAccess

PACKAGES = ("torchcodec", "torch", "torchvision")
FULL_SIZE_FRAMES = 4


def frame_at(path: Path) -> FrameAt:
    """One FFmpeg thread."""
    decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact")
    return lambda index: decoder.get_frame_at(index).data.numpy()


def decode(path: Path, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
    """Exact seek mode, its default: the number of frames is known and not guessed."""
    torch.set_num_threads(1)
    decoder = VideoDecoder(path)
    count = len(decoder)
    for start in range(0, count, FULL_SIZE_FRAMES):
        batch = decoder.get_frames_in_range(start, min(start + FULL_SIZE_FRAMES, count))
        small = resize(batch.data, list(size), antialias=True)
        yield small.permute(0, 2, 3, 1).numpy()


def random_access(task: RandomAccess) -> GroupedByFile:
    """One FFmpeg thread for each decoder; resized as in the sequential benchmark."""
    torch.set_num_threads(1)
    decoder = cache(lambda video: VideoDecoder(task.paths[video]))

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        batch = decoder(video).get_frames_at(list(indices))
        small = resize(batch.data, list(task.size), antialias=True)
        return list(small.permute(0, 2, 3, 1).numpy())

    return GroupedByFile(task, decode)
