"""Cameras that do not fit the reference of their clip, in words."""

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.sampling.alignment import MISSING, Sync
from headrace.training.cameras.alignment import Alignment, Reference
from headrace.video.stream_index import StreamIndex

_POLICIES = "choose on_missing='drop', 'mask' or 'repeat' in Alignment"


def mismatch(
    reference: Reference,
    cameras: tuple[StreamIndex, StreamIndex],
    frames: NDArray[np.int64],
    seconds: NDArray[np.float64],
    alignment: Alignment,
    asked: NDArray[np.int64] | None = None,
) -> DecodeError | None:
    """Return why moments and frames do not go together one by one; None where they do.

    Args:
        reference: What the moments are.
        cameras: The reference, and another one.
        frames: int64 [moments]: the frame of the other; `MISSING` where there is none.
        seconds: When the frames of the other were taken, on the common clock.
        alignment: What belongs together.
        asked: int64: the moments that are asked for; None means all.
    """
    first, other = cameras
    sync, tolerance_ms = alignment.sync, alignment.tolerance_ms
    length = len(reference.seconds)
    every = np.arange(length) if asked is None else asked
    by_time = _by_time(reference, first, other) if sync == "index" else ", or raise tolerance_ms"
    what = f"{_POLICIES}{by_time}"
    without = every[frames[every] == MISSING]
    if len(without):
        moment = int(without[0])
        if sync == "index":
            found = f"it has {len(other)} frames, {reference.name} {length}"
        else:
            found = _nothing_near(seconds - reference.seconds[moment], tolerance_ms, sync)
        return DecodeError(
            f"{other.source} has no frame for {len(without)} of {len(every)} moments, the first is "
            f"frame {moment} of {reference.name}: {found}; {what}",
            source=str(other.source),
            pts=None if reference.place is None else int(first.pts[moment]),
            missing=[moment],
        )
    if sync == "index" and len(other) > length:
        return DecodeError(
            f"{first.source} ends after {length} frames, {other.source} has {len(other)}; {what}",
            source=str(first.source),
            pts=int(first.pts[-1]),
        )
    return None


def no_moment_left(first: StreamIndex, moments: int) -> DecodeError:
    """Return why a clip is left out of whose `moments` none has a frame of every camera."""
    if not moments:
        return DecodeError(
            f"{first.source}: it has none of the moments that are asked for; look at moments=",
            source=str(first.source),
        )
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


def _by_time(reference: Reference, first: StreamIndex, other: StreamIndex) -> str:
    """Return what is to be done besides, where cameras have frame rates of their own."""
    rates = first.frame_rate, other.frame_rate
    if max(rates) * 100 <= min(rates) * 101:
        return ""
    theirs, its = (f"{float(rate):.3g}" for rate in rates)
    return (
        f"; or, as it has {its} frames/s and {reference.name} {theirs}, align them by time with "
        "sync='nearest' or 'previous'"
    )
