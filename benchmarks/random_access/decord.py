"""decord: readers that scale are kept, and a batch asks each file once for all its frames."""

from collections.abc import Sequence
from functools import cache

import decord
import numpy as np
from numpy.typing import NDArray

from benchmarks.random_access.way import GroupedByFile, Task

PACKAGES = ("decord",)


def deliver(task: Task) -> GroupedByFile:
    """One decoding thread for each reader."""
    height, width = task.size

    @cache
    def reader(video: int) -> decord.VideoReader:
        path = str(task.paths[video])
        return decord.VideoReader(path, width=width, height=height, num_threads=1)

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        return list(reader(video).get_batch(list(indices)).asnumpy())

    return GroupedByFile(task, decode)
