"""The reference: every frame of a stream by a linear PyAV decode, without headrace's decoder."""

from collections.abc import Callable, Container, Iterator
from itertools import count
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from headrace.decode.converter import ArrayConverter
from headrace.video.frame_format import FrameFormat
from headrace.video.packet_table import orientation_of


def linear_frames(path: Path, shape: FrameFormat | None = None) -> list[NDArray[np.uint8]]:
    """Return every frame in presentation order; packets that fail to decode are skipped."""
    return [frame for [frame] in _converted(path, lambda _: [shape or FrameFormat()])]


def linear_in_two(
    path: Path, shape: FrameFormat, whole: Container[int]
) -> tuple[list[NDArray[np.uint8]], dict[int, NDArray[np.uint8]]]:
    """Return every frame in `shape`, and the frames in `whole` at full size, by one decode."""
    pairs = list(_converted(path, lambda number: [shape, *[FrameFormat()] * (number in whole)]))
    return [frame for frame, *_ in pairs], {
        k: full[0] for k, (_, *full) in enumerate(pairs) if full
    }


def _converted(
    path: Path, shapes_of: Callable[[int], list[FrameFormat]]
) -> Iterator[list[NDArray[np.uint8]]]:
    """Yield each frame in the formats that `shapes_of` returns for its index."""
    numbers, converters = count(), dict[FrameFormat, ArrayConverter]()
    with av.open(str(path)) as container:
        stream = container.streams.best("video")
        stream.codec_context.thread_count = 1
        for packet in container.demux(stream):
            try:
                decoded = packet.decode()
            except av.error.FFmpegError:
                continue
            for frame in decoded:
                shapes = shapes_of(next(numbers))
                for shape in shapes:
                    if shape not in converters:
                        converters[shape] = ArrayConverter(shape, orientation_of(frame), str(path))
                yield [converters[shape].convert(frame, None) for shape in shapes]
