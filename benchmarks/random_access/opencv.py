"""OpenCV: captures are kept; one goes to each frame in turn, and reads on where it is close."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.random_access.way import GroupedByFile, Task

PACKAGES = ("opencv-python-headless",)
CLOSE = 8
"""Frames up to which reading on is quicker than going there."""


def deliver(task: Task) -> GroupedByFile:
    """One decoding thread for each capture."""
    cv2.setNumThreads(1)
    height, width = task.size

    @cache
    def capture(video: int) -> cv2.VideoCapture:
        return cv2.VideoCapture(str(task.paths[video]), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        source, at = capture(video), -1
        frames: list[NDArray[Any]] = []
        for index in indices:
            if at < 0 or index - at > CLOSE:
                source.set(cv2.CAP_PROP_POS_FRAMES, index)
                at = index
            while at < index:
                source.grab()
                at += 1
            _, full = source.read()
            at += 1
            small = cv2.resize(full, (width, height), interpolation=cv2.INTER_AREA)
            frames.append(cv2.cvtColor(small, cv2.COLOR_BGR2RGB))
        return frames

    return GroupedByFile(task, decode)
