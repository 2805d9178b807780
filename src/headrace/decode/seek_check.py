"""Proof on the user's own files: frames reached by a seek equal those of a linear read."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.decode.converter import ArrayConverter
from headrace.decode.decoder_config import Backend, DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.gop_verification import plain_frames_from
from headrace.decode.open_decoder import open_decoder, open_index
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import DecodeError
from headrace.video.frame_format import FrameFormat
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_EXACT: Final[tuple[Backend, ...]] = ("pyav",)
"""Backends that give a plain decode's very bits. What others give is held against it as they
decode: see `tolerance`."""
_GOLDEN_RATIO = 0.618_033_988_749_895


def _open(index: StreamIndex, backend: Backend) -> Decoder[Array]:
    return open_decoder(index, decoding=DecoderConfig(backend=backend))


@dataclass(frozen=True, kw_only=True)
class SeekCheck:
    """What came out for one file and one backend."""

    source: str
    """The file."""
    backend: str
    """The backend that was tried."""
    frames: int
    """Frames in the file."""
    compared: int
    """Frames reached by a seek and held against the linear read."""
    mismatches: tuple[int, ...]
    """Indices of frames that differ in any byte; there should be none."""
    refused: tuple[int, ...]
    """Indices of frames that the linear read gives and the seek does not; there should be none."""
    undecodable: tuple[int, ...]
    """Indices of frames at which the file is damaged: FFmpeg reports it there, or before."""


def check_parity(
    source: Source | str,
    *,
    num_frames: int = 32,
    open_backend: Callable[[StreamIndex, Backend], Decoder[Array]] = _open,
) -> Iterator[SeekCheck]:
    """Compare `num_frames` scattered frames, bit by bit: one Parity for each backend that is exact.

    Cost: decodes the whole file once, and a GOP for each frame; holds the compared frames.

    Raises:
        MediaError: the file cannot be opened as video.
    """
    index = open_index(source)
    scattered = [int(k * _GOLDEN_RATIO % 1 * len(index)) for k in range(1, num_frames + 1)]
    order = list(dict.fromkeys(scattered))
    plain = _plain(index, set(order))
    for backend in _EXACT:
        with closing(open_backend(index, backend)) as decoder:
            sought = {k: frame for k in order for frame in _seek(decoder, k)}
        both = [k for k in order if k in plain and k in sought]
        damaged = {k for k in order if index.verdicts.is_damaged(k)}
        yield SeekCheck(
            source=str(index.source),
            backend=backend,
            frames=len(index),
            compared=len(both),
            mismatches=tuple(sorted(k for k in both if not np.array_equal(plain[k], sought[k]))),
            refused=tuple(sorted(set(plain) - set(sought) - damaged)),
            undecodable=tuple(sorted(damaged | (set(order) - set(plain)))),
        )


def _plain(index: StreamIndex, kept: set[int]) -> dict[int, Array]:
    """Return frames as a bare PyAV loop gives them, from the first packet to the last."""
    converter = ArrayConverter(FrameFormat(), index.info.orientation, str(index.source))
    frames: dict[int, Array] = {}
    for number, frame in plain_frames_from(index, 0, DecodeCounters()):
        if number in kept and not frame.is_corrupt:
            frames[number] = converter.convert(frame, None)
    return frames


def _seek(decoder: Decoder[Array], index: int) -> list[Array]:
    """Return the frame, or nothing when it cannot be decoded."""
    try:
        return [frame for _, frame in decoder.run(DecodeJob((index,)))]
    except DecodeError:
        return []
