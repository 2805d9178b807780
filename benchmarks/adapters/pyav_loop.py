"""The limit: bare PyAV, one scaling pass per frame to small RGB, one file per core."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import av
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from benchmarks.adapters import Chunk, files_on_threads, in_chunks

PACKAGES = ("av",)


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> Iterator[Chunk]:
    """Also the reference of the equality proof: a plain linear decode."""
    return files_on_threads(paths, workers, lambda path: in_chunks(_decode(path, size)))


def _decode(path: Path, size: tuple[int, int]) -> Iterator[NDArray[Any]]:
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
