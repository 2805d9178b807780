"""The limit: a bare PyAV loop, one scaling pass per frame to small RGB, one file per core."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from benchmarks.adapters import in_chunks

PACKAGES = ("av",)


def decode(path: Path, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
    """Yield frames by a plain linear decode; also the reference of the frame comparison."""
    return in_chunks(_pictures(path, size))


def _pictures(path: Path, size: tuple[int, int]) -> Iterator[NDArray[Any]]:
    height, width = size
    scaler = VideoReformatter()
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for frame in container.decode(stream):
            small = scaler.reformat(
                frame, width, height, "rgb24", interpolation=Interpolation.AREA, threads=1
            )
            yield small.to_ndarray()
