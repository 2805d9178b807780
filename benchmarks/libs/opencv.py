"""OpenCV: a capture per file and thread, then the scaler its documentation names for shrinking."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.libs.adapter import CHUNK, Chunk, files_on_threads

PACKAGES = ("opencv-python-headless",)


def every_frame(
    paths: Sequence[Path], size: tuple[int, int], workers: int, scaler: int = cv2.INTER_AREA
) -> Iterator[Chunk]:
    """One decoding thread per capture."""
    cv2.setNumThreads(1)
    return files_on_threads(paths, workers, partial(_decode, size=size, scaler=scaler))


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
