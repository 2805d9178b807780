"""Whether packets alone tell which frames a stream presents, and in which order."""

import numpy as np

from headrace.video.packet_table import PacketTable
from headrace.video.random_access import RandomAccess
from headrace.video.timebase import NO_PTS

_ONE_FRAME_PER_PACKET = frozenset(
    [
        *(
            "h264",
            "hevc",
            "vvc",
            "av1",
            "vp8",
            "vp9",
            "theora",
            "mpeg1video",
            "mpeg2video",
            "mpeg4",
        ),
        *("h263", "msmpeg4v2", "msmpeg4v3", "wmv1", "wmv2", "vc1", "cinepak", "mjpeg", "prores"),
        *("dnxhd", "ffv1", "huffyuv", "rawvideo", "png"),
    ]
)
_WITHOUT_PTS = frozenset(["avi", "mpegvideo", "m4v"])
"""Containers that store no presentation times: what FFmpeg gives is a guess."""
_B_BY_TYPE = frozenset(["mpeg1video", "mpeg2video"])
"""Codecs in which the type of a picture alone says when it is shown."""


def needs_decoding(table: PacketTable) -> bool:
    """Return whether packets alone cannot tell which frames are presented, and in which order."""
    info = table.info
    pts = table.pts[table.is_shown]
    if info.codec not in _ONE_FRAME_PER_PACKET or info.is_interlaced or not len(pts):
        return True
    order = np.argsort(pts, kind="stable")
    if (
        table.is_set_up_anew
        or table.shift.any()
        or (table.pts == NO_PTS).any()
        or not np.diff(pts[order]).all()
    ):
        return True
    if info.reorders and info.container in _WITHOUT_PTS:
        return True
    keyframes = np.flatnonzero(table.is_keyframe)
    if not len(keyframes) or keyframes[0] != 0:
        return True
    if (table.trust[keyframes[1:]] == RandomAccess.DOUBTFUL).any():
        # Each picture is to be known before decoding may begin there.
        return True
    if info.codec == "h264" and table.trust[0] != RandomAccess.CERTAIN:
        # It may begin with frames that the decoder keeps to itself until it is sure of them.
        return True
    # Frames that a decoder must hold back to give them in the order of their times.
    depth = int((order - np.arange(len(order))).max())
    if depth > table.reorder_depth:
        # The decoder holds back fewer: it gives them in another order, or loses some.
        return True
    if info.codec in _B_BY_TYPE and not _is_order_of_types(table):
        return True
    if info.reorders and depth == 0 and not table.is_keyframe.all():
        # Frames that come out in another order than they went in, and times that do not: they lie.
        return True
    # Frames before the first keyframe, decoded after it: the stream was cut at an open GOP.
    return bool((pts < table.pts[0]).any())


def _is_order_of_types(table: PacketTable) -> bool:
    """Return whether times put frames in the order in which their types have them shown.

    A B-picture is shown at once, any other when the next one that is none is decoded.
    """
    shown = np.flatnonzero(table.is_shown)
    is_b = table.is_droppable[shown]
    place = np.arange(len(shown), dtype=np.float64)
    others = place[~is_b]
    # Just before the next one, and behind the B-pictures in between.
    place[~is_b] = np.append(others[1:], len(shown)) - 0.5
    order = np.argsort(table.pts[shown], kind="stable")
    return bool((np.diff(place[order]) > 0).all())
