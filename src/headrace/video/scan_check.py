"""Scan check: whether packets alone define a stream's frames and their order; and its GOPs."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.video.packet_table import PacketTable, StreamInfo
from headrace.video.random_access import RandomAccess
from headrace.video.timebase import NO_PTS

_ONE_FRAME_PER_PACKET = frozenset(
    [
        *("h264", "hevc", "vvc", "av1", "vp8", "vp9", "theora"),
        *("mpeg1video", "mpeg2video", "mpeg4"),
        *("h263", "msmpeg4v2", "msmpeg4v3", "wmv1", "wmv2", "vc1", "cinepak", "mjpeg", "prores"),
        *("dnxhd", "ffv1", "huffyuv", "rawvideo", "png"),
    ]
)
_WITHOUT_PTS = frozenset(["avi", "mpegvideo", "m4v"])
"""Containers without presentation times: FFmpeg guesses them."""
_B_BY_TYPE = frozenset(["mpeg1video", "mpeg2video"])
"""Codecs whose picture types alone define the presentation order."""


def needs_decoding(table: PacketTable) -> bool:
    """Return whether packets alone do not define the frames and their order."""
    info = table.info
    pts = table.pts[table.is_shown]
    if info.codec not in _ONE_FRAME_PER_PACKET or info.is_interlaced or not len(pts):
        return True
    order = np.argsort(pts, kind="stable")
    if (
        table.has_new_setup
        or table.clock_shift.any()
        or (table.pts == NO_PTS).any()
        or not np.diff(pts[order]).all()
    ):
        return True
    if info.reorders and info.container in _WITHOUT_PTS:
        return True
    keyframes = np.flatnonzero(table.is_keyframe)
    if not len(keyframes) or keyframes[0] != 0:
        return True
    if (table.random_access[keyframes[1:]] == RandomAccess.UNVERIFIED).any():
        # The digest of each frame must be known before decoding can start there.
        return True
    if info.codec == "h264" and table.random_access[0] != RandomAccess.GUARANTEED:
        # The decoder may drop first frames as incomplete.
        return True
    # Number of frames that a decoder must hold back to output them by time.
    depth = int((order - np.arange(len(order))).max())
    if depth > table.reorder_depth:
        # The decoder would output frames in another order, or drop some.
        return True
    if info.codec in _B_BY_TYPE and not _matches_frame_types(table):
        return True
    if info.reorders and depth == 0 and not table.is_keyframe.all():
        # The codec reorders frames but the times do not: they are wrong.
        return True
    # Frames shown before the first keyframe: the stream was cut at an open GOP.
    return bool((pts < table.pts[0]).any())


def _matches_frame_types(table: PacketTable) -> bool:
    """Return whether times and picture types define the same presentation order.

    A B-frame is shown at once, any other frame when the next non-B-frame is decoded.
    """
    shown = np.flatnonzero(table.is_shown)
    is_b = table.is_disposable[shown]
    position = np.arange(len(shown), dtype=np.float64)
    others = position[~is_b]
    # Just before the next non-B-frame, after the B-frames in between.
    position[~is_b] = np.append(others[1:], len(shown)) - 0.5
    order = np.argsort(table.pts[shown], kind="stable")
    return bool((np.diff(position[order]) > 0).all())


def gops_of(
    table: PacketTable, packet_index: NDArray[np.int64], pts: NDArray[np.int64], has_times: bool
) -> NDArray[np.int64]:
    """Return int64 [GOPs, 2]: index of each GOP's first frame, and packet of its keyframe.

    If an edit list hides the keyframe, the GOP starts at the first frame presented after it.
    """
    index_of = np.full(len(table), -1, np.int64)
    index_of[packet_index] = np.arange(len(packet_index))
    keyframes = np.flatnonzero(table.is_keyframe)
    start = index_of[keyframes]
    hidden = start < 0
    if has_times:
        start[hidden] = np.searchsorted(pts, table.shown_pts[keyframes[hidden]], "left")
    else:
        keyframes, start = keyframes[~hidden], start[~hidden]
    rows = np.stack([start, keyframes], axis=1)[start < len(packet_index)]
    # The first keyframe replaces the start of the stream only if it is guaranteed.
    is_entry = (rows[:, 0] > 0) | (table.random_access[rows[:, 1]] == RandomAccess.GUARANTEED)
    rows = np.concatenate([np.zeros((1, 2), np.int64), rows[is_entry]])
    is_last_of_start = np.append(np.diff(rows[:, 0]) > 0, True)
    if not (np.diff(rows[:, 0]) >= 0).all():
        # Keyframes are out of presentation order: decode from the start only.
        return rows[:1]
    gops: NDArray[np.int64] = rows[is_last_of_start]
    return gops


def invented_pts(info: StreamInfo, num_frames: int) -> NDArray[np.int64]:
    """Return times at the nominal rate, or 25 frames/s, for a stream without times."""
    rate = info.nominal_rate or Fraction(25)
    step = 1 / (rate * info.time_base)
    return np.array([round(k * step) for k in range(num_frames)], np.int64)


def durations_of(pts: NDArray[np.int64], listed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ticks until the next frame; for the last its listed duration, or the median."""
    gaps = np.diff(pts)
    last = listed[-1] if listed[-1] > 0 else (int(np.median(gaps)) if len(gaps) else 0)
    durations: NDArray[np.int64] = np.append(gaps, last).astype(np.int64)
    return durations
