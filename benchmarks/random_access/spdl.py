"""SPDL: the packets of all files stay in memory; a batch decodes the frames of each file at once.

It has no index and no decoder to keep; `sample_decode_video` goes from keyframe to keyframe.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import spdl.io
from numpy.typing import NDArray

from benchmarks.random_access.way import GroupedByFile, Task

PACKAGES = ("spdl", "spdl_io")


def deliver(task: Task) -> GroupedByFile:
    """Scaled by its filter graph."""
    height, width = task.size
    scale = spdl.io.get_video_filter_desc(
        scale_width=width, scale_height=height, scale_mode=None, scale_algo="area"
    )
    packets = cache(lambda video: spdl.io.demux_video(str(task.paths[video])))

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        frames = spdl.io.sample_decode_video(
            packets(video).clone(), list(indices), filter_desc=scale
        )
        return list(spdl.io.to_numpy(spdl.io.convert_frames(frames)))

    return GroupedByFile(task, decode)
