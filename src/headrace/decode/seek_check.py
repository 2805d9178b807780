"""Seek check on the user's files: a frame after a seek equals the frame of a linear read."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from headrace.decode.converter import ArrayConverter
from headrace.decode.decoder_config import Backend
from headrace.decode.frame_outputs import Array
from headrace.decode.gop_verification import reference_frames_from
from headrace.decode.open_decoder import open_decoder, open_index
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import DecodeError
from headrace.video.container import open_container
from headrace.video.frame_format import FrameFormat
from headrace.video.pyav_version import to_rgb
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_EXACT: Final[Backend] = "pyav"
"""The backend whose frames equal a reference decode's, bit for bit. Other backends are compared
while they decode: see `PixelDifference`."""
_GOLDEN_RATIO = 0.618_033_988_749_895


@dataclass(frozen=True, kw_only=True)
class SeekCheck:
    """Result for one file and one backend."""

    source: str
    """The file."""
    backend: str
    """The backend that was checked."""
    frames: int
    """Frames in the file."""
    compared: int
    """Frames compared with the linear read after a seek."""
    mismatches: tuple[int, ...]
    """Indices of frames that differ in any byte; empty if seeking is exact."""
    refused: tuple[int, ...]
    """Indices of frames that only the linear read outputs; empty if seeking is exact."""
    undecodable: tuple[int, ...]
    """Indices of frames with damage that FFmpeg reports, there or in earlier frames."""


def check_parity(
    source: Source | str,
    *,
    num_frames: int = 32,
    open_one: Callable[[StreamIndex], Decoder[Array]] = open_decoder,
) -> SeekCheck:
    """Compare `num_frames` scattered frames of the exact backend, bit by bit.

    Cost: decodes the whole file once, and a GOP for each frame; holds the compared frames.

    Raises:
        MediaError: the file cannot be opened as video.
    """
    index = open_index(source)
    scattered = [int(k * _GOLDEN_RATIO % 1 * len(index)) for k in range(1, num_frames + 1)]
    order = list(dict.fromkeys(scattered))
    linear = _read_linearly(index, set(order))
    with closing(open_one(index)) as decoder:
        sought = {k: frame for k in order for frame in _seek(decoder, k)}
    both = [k for k in order if k in linear and k in sought]
    damaged = {k for k in order if index.frame_status.is_damaged(k)}
    return SeekCheck(
        source=str(index.source),
        backend=_EXACT,
        frames=len(index),
        compared=len(both),
        mismatches=tuple(sorted(k for k in both if not np.array_equal(linear[k], sought[k]))),
        refused=tuple(sorted(set(linear) - set(sought) - damaged)),
        undecodable=tuple(sorted(damaged | (set(order) - set(linear)))),
    )


def _read_linearly(index: StreamIndex, wanted: set[int]) -> dict[int, Array]:
    """Return wanted frames of a linear reference decode of the file."""
    converter = ArrayConverter(FrameFormat(), index.info.orientation, str(index.source))
    frames: dict[int, Array] = {}
    for frame_index, frame in reference_frames_from(index, 0, DecodeCounters()):
        if frame_index in wanted and not frame.is_corrupt:
            frames[frame_index] = converter.convert(frame, None)
    return frames


def _seek(decoder: Decoder[Array], frame_index: int) -> list[Array]:
    """Return a frame in a list; an empty list if it cannot be decoded."""
    try:
        return [frame for _, frame in decoder.run(DecodeJob((frame_index,)))]
    except DecodeError:
        return []


def pyav_frames(index: StreamIndex, size: tuple[int, int] | None) -> Iterator[NDArray[np.uint8]]:
    """Yield every frame of a file, uint8 [H, W, 3], by a single-threaded PyAV loop."""
    upright = index.info.orientation.upright
    height, width = index.info.orientation.upright_size(size or index.info.upright_size)
    shrinks = height <= index.info.height and width <= index.info.width
    scaling = Interpolation.AREA if shrinks else Interpolation.BICUBIC
    scaler = VideoReformatter()
    container, stream = open_container(index.source)
    with container:
        stream.codec_context.thread_count = 1
        for frame in container.decode(stream):
            small = scaler.reformat(
                frame, width, height, "rgb24", interpolation=scaling, **to_rgb(frame)
            )
            yield upright(np.asarray(small.to_ndarray(), np.uint8))
