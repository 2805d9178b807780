"""Cameras that do not fit the first one of their clip, in words."""

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.sampling.alignment import MISSING, Sync
from headrace.video.stream_index import StreamIndex

_POLICIES = "choose on_missing='drop', 'mask' or 'repeat' in Alignment"


def mismatch(
    cameras: tuple[StreamIndex, StreamIndex],
    frames: NDArray[np.int64],
    seconds: tuple[NDArray[np.float64], NDArray[np.float64]],
    sync: Sync,
    tolerance_ms: float,
) -> DecodeError | None:
    """Return why moments and frames do not go together one by one; None where they do.

    Args:
        cameras: The one whose frames are the moments, and another one.
        frames: int64 [moments]: the frame of the other; `MISSING` where there is none.
        seconds: When the frames of each were taken, on the common clock.
        sync: What belongs together.
        tolerance_ms: How far apart that may be.
    """
    first, other = cameras
    by_time = _by_time(first, other) if sync == "index" else ", or raise tolerance_ms"
    what = f"{_POLICIES}{by_time}"
    without = np.flatnonzero(frames == MISSING)
    if len(without):
        moment = int(without[0])
        if sync == "index":
            found = f"it has {len(other)} frames, the first camera {len(first)}"
        else:
            found = _nothing_near(seconds[1] - seconds[0][moment], tolerance_ms, sync)
        return DecodeError(
            f"{other.source} has no frame for {len(without)} of {len(first)} moments, the first is "
            f"frame {moment} of the first camera: {found}; {what}",
            source=str(other.source),
            pts=int(first.pts[moment]),
            missing=[moment],
        )
    if sync == "index" and len(other) > len(first):
        return DecodeError(
            f"{first.source} ends after {len(first)} frames, {other.source} has {len(other)}; "
            f"{what}",
            source=str(first.source),
            pts=int(first.pts[-1]),
        )
    return None


def no_moment_left(first: StreamIndex, moments: int) -> DecodeError:
    """Return why a clip is left out none of whose moments has a frame of every camera."""
    return DecodeError(
        f"{first.source}: none of its {moments} moments has a frame of every camera; look at the "
        "clocks, or raise the tolerance",
        source=str(first.source),
    )


def _nothing_near(apart: NDArray[np.float64], tolerance_ms: float, sync: Sync) -> str:
    """Return what there is instead; `apart`: seconds from the moment to each frame."""
    which = "nearest"
    if sync == "previous":
        which, apart = "latest earlier", apart[apart <= 0]
        if not len(apart):
            return "it has none before"
    gap = np.abs(apart).min() * 1000
    return f"its {which} frame is {gap:.1f} ms away, {tolerance_ms:g} are tolerated"


def _by_time(first: StreamIndex, other: StreamIndex) -> str:
    """Return what is to be done besides, where cameras have frame rates of their own."""
    rates = first.frame_rate, other.frame_rate
    if max(rates) * 100 <= min(rates) * 101:
        return ""
    theirs, its = (f"{float(rate):.3g}" for rate in rates)
    return (
        f"; or, as it has {its} frames/s and the first camera {theirs}, align them by time with "
        "sync='nearest' or 'previous'"
    )
