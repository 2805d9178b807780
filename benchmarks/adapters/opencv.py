"""OpenCV: a capture per file and thread, then the scaler its documentation names for shrinking.

The default scaler, `linear`, is quicker, but it skips pixels when it shrinks. For random frames
captures are kept; one goes to each frame in turn, and reads on where it is close.
"""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.adapters import CHUNK, Chunk, FrameAt, GroupedByFile, RandomAccess, files_on_threads

PACKAGES = ("opencv-python-headless",)
CLOSE = 8
"""Frames up to which reading on is quicker than going there."""
SCALERS = {"area": cv2.INTER_AREA, "linear": cv2.INTER_LINEAR}


def every_frame(
    paths: Sequence[Path],
    size: tuple[int, int],
    workers: int,
    scaler: Literal["area", "linear"] = "area",
) -> Iterator[Chunk]:
    """One decoding thread per capture."""
    cv2.setNumThreads(1)
    return files_on_threads(paths, workers, partial(_decode, size=size, scaler=SCALERS[scaler]))


def frame_at(path: Path) -> FrameAt:
    """One thread; it goes to each frame."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])

    def read(index: int) -> NDArray[np.uint8] | None:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        has_come, picture = capture.read()
        return np.asarray(picture, np.uint8)[:, :, ::-1] if has_come else None

    return read


def _decode(path: Path, size: tuple[int, int], scaler: int) -> Iterator[NDArray[np.uint8]]:
    height, width = size
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    pictures: list[NDArray[Any]] = []
    while True:
        found, full = capture.read()
        if found:
            small = cv2.resize(full, (width, height), interpolation=scaler)
            pictures.append(cv2.cvtColor(small, cv2.COLOR_BGR2RGB))
        if pictures and (not found or len(pictures) == CHUNK):
            yield np.stack(pictures)
            pictures = []
        if not found:
            capture.release()
            return


def random_access(task: RandomAccess) -> GroupedByFile:
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
