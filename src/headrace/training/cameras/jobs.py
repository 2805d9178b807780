"""From moments of a camera to decode jobs: read on where that is cheap, seek where it is not."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.decode.protocol import DecodeJob
from headrace.video.entry import Trust
from headrace.video.stream_index import StreamIndex

_SEEK: Final = 2
"""Frames that might be decoded in the time of a seek, about: see `planning/chunks.py`."""


def stream_jobs(
    index: StreamIndex, wanted: Sequence[int], following: int | None
) -> Iterator[DecodeJob]:
    """Yield jobs for frames of one camera, cut where a seek costs less than what lies between.

    So a GOP of which none is wanted is not decoded, nor more than two frames behind the last one
    that is wanted of a GOP; and the codec is left to read on only where it will.

    Args:
        index: The frames there are.
        wanted: Those to deliver, ascending, none twice.
        following: The first that is wanted behind them, by a job that comes later; None: none is.
    """
    part: list[int] = []
    for frame, after in pairwise([*wanted, following]):
        assert frame is not None
        part.append(frame)
        is_cut = after is None or _is_far(index, frame, after)
        if is_cut or after == following:
            # Where no seek finds the way, whoever stands nowhere begins again at the first packet.
            goes_on = after is not None and not (is_cut and index.is_seekable)
            yield DecodeJob(tuple(part), goes_on=goes_on, following=None if is_cut else after)
            part = []


def first_behind(frames: NDArray[np.int64], frame: int) -> int | None:
    """Return the first of a camera's `frames`, int64 [moments], that is shown after `frame`."""
    behind = frames[frames > frame]
    return int(behind[0]) if len(behind) else None


def _is_far(index: StreamIndex, frame: int, after: int) -> bool:
    """Return whether to seek from a frame to one behind it costs less than to read on."""
    next_gop = index.gop_of(frame) + 1
    gop = index.gop_of(after)
    if gop != next_gop:
        return gop > next_gop
    if index.gop_trust[gop] == Trust.DOUBTFUL:
        return False  # Whoever seeks there may have to go back further.
    start = int(index.gop_start[gop])
    between = start - frame - 1
    if index.can_skip:
        between -= int(np.count_nonzero(index.is_droppable[frame + 1 : start]))
    return between > _SEEK
