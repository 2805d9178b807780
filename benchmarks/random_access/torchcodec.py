"""torchcodec used well: decoders are kept, and a batch asks each file once for all its frames."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torchcodec.decoders import VideoDecoder
from torchvision.transforms.v2.functional import resize

from benchmarks.random_access.way import GroupedByFile, Task

PACKAGES = ("torchcodec", "torch", "torchvision")


def deliver(task: Task) -> GroupedByFile:
    """One FFmpeg thread for each decoder; resized as in the sequential benchmark."""
    torch.set_num_threads(1)
    decoder = cache(lambda video: VideoDecoder(task.paths[video]))

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        batch = decoder(video).get_frames_at(list(indices))
        small = resize(batch.data, list(task.size), antialias=True)
        return list(small.permute(0, 2, 3, 1).numpy())

    return GroupedByFile(task, decode)
