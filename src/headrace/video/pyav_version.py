"""PyAV versions: replacements for properties that PyAV before 18.1 does not expose.

headrace works with PyAV 15.1 and newer. With an old version, indexing decodes more files, because
an unknown property counts as the harder case; frames are the same. Each function prefers PyAV's own
property.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any, BinaryIO, Final, Literal, TypeAlias

import av
from av.error import FFmpegError
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from headrace.errors import BackendError
from headrace.video.nal import sequence_header
from headrace.video.source import Source

SideDataKind: TypeAlias = Literal["palette", "new_extradata"]
"""PyAV's names of the side data that is read."""
FULL: Final = "18.1"
"""First PyAV version with all properties; GPUs and new proxies need it."""
ONE_THREAD: Final[dict[str, Any]] = (
    {"threads": 1} if "threads" in str(VideoReformatter.reformat.__doc__) else {}
)
"""Arguments of `VideoReformatter.reformat` for one thread; PyAV before 17 always uses one."""
INVALID_ARGUMENT: Final[type[FFmpegError]] = getattr(
    av.error, "ArgumentError", getattr(av.error, "ValueError", FFmpegError)
)
"""PyAV's error of an invalid argument; PyAV 17 renamed it."""

BYTE_ORDER: Final = "le" if sys.byteorder == "little" else "be"
"""Suffix of pixel formats of more than 8 bits on this machine."""

_DEFAULT_DEPTH: Final = 15
"""Reorder depth that FFmpeg assumes for H.264 without a declared one."""
_MAY_CHANGE = frozenset(["flv", "live_flv", "nut"])
"""Containers besides MP4 that may have new extradata in the side data of any packet."""
_BOXES = frozenset([b"moov", b"trak", b"mdia", b"minf", b"stbl"])


def check_full(request: str, fix: str) -> None:
    """Check that PyAV is `FULL` or newer.

    Args:
        request: What needs it: the start of the message.
        fix: Advice besides the installation, as a clause.

    Raises:
        BackendError: it is older.
    """
    if not hasattr(VideoCodecContext, "field_order"):
        raise BackendError(
            f"{request} needs PyAV {FULL} or newer, found {av.__version__}; "
            f"pip install 'av>={FULL}', or {fix}"
        )


def reorder_depth(context: VideoCodecContext) -> int:
    """Return the number of frames that a codec holds back for reordering, as far as known.

    With PyAV before 17 it is the declared number, or 1 with B-frames; the codec may hold back more.
    """
    if hasattr(context, "reorder_depth"):
        return int(context.reorder_depth)
    declared = sequence_header(context.codec.canonical_name, context.extradata).reorder_depth
    return max(int(context.has_b_frames), declared or 0)


def set_reorder_depth(context: VideoCodecContext, depth: int) -> None:
    """Let a codec that is not open yet hold back `depth` frames.

    With PyAV before 17, an H.264 codec holds back the declared number of frames, or
    `_DEFAULT_DEPTH`.
    """
    if hasattr(context, "reorder_depth"):
        context.reorder_depth = depth
    elif depth:
        codec = context.codec.canonical_name
        if codec == "h264" and sequence_header(codec, context.extradata).reorder_depth is None:
            depth = _DEFAULT_DEPTH  # A smaller depth loses frames, a larger one only waits.
        context.options = {**context.options, "has_b_frames": str(depth)}


def may_be_in_fields(context: VideoCodecContext) -> bool:
    """Return whether a stream is, or may be, coded in fields, as known on opening the file.

    With PyAV before 18.1, by the sequence headers of H.264 and MPEG-2; other codecs store both
    fields of a frame in one packet.
    """
    if hasattr(context, "field_order"):
        return int(context.field_order) not in (0, 1)
    codec = context.codec.canonical_name
    is_progressive = sequence_header(codec, context.extradata).is_progressive
    return codec in ("h264", "mpeg2video") and not is_progressive


def to_rgb(frame: VideoFrame) -> dict[str, Any]:
    """Return arguments of `VideoReformatter.reformat` for RGB by the frame's tags, in one thread.

    PyAV before 17 assumes BT.601 and the pixel format's range, unless they are set.

    Raises:
        ValueError: swscale lacks the matrix; PyAV 17 and newer raise their own error.
    """
    if ONE_THREAD or frame.format.is_rgb or len(frame.format.components) < 3:
        return ONE_THREAD
    is_full = frame.color_range == ColorRange.JPEG or frame.format.name.startswith("yuvj")
    matrix, rec601 = _known_matrix(int(frame.colorspace)), Colorspace.ITU601
    return {
        "src_colorspace": matrix,
        "src_color_range": ColorRange.JPEG if is_full else ColorRange.MPEG,
        # RGB has no matrix. But PyAV only sets the source's if the two differ, else keeps the last.
        "dst_colorspace": Colorspace.ITU709 if matrix == rec601 else rec601,
    }


def to_yuv420(frame: VideoFrame, matrix: int, span: int) -> dict[str, Any]:
    """Return arguments of `VideoReformatter.reformat` for YUV 4:2:0 as tagged, in one thread.

    PyAV before 17 sets no range without a change of matrix: the pixel format implies it.

    Args:
        frame: The frame.
        matrix: The frame's matrix, by its tags.
        span: The frame's range, by its tags.

    Raises:
        ValueError: swscale lacks the matrix.
    """
    if not frame.format.is_rgb and len(frame.format.components) >= 3:
        _known_matrix(matrix)  # swscale would use BT.601 instead.
    colors = {"dst_colorspace": matrix, "dst_color_range": span}
    if ONE_THREAD:
        return {"format": "yuv420p", **colors, **ONE_THREAD}
    is_full = frame.format.name.startswith("yuvj") or len(frame.format.components) < 3
    return {
        "format": "yuvj420p" if is_full and span == ColorRange.JPEG else "yuv420p",
        "src_colorspace": matrix,
        "src_color_range": span,
        **colors,
    }


def _known_matrix(matrix: int) -> int:
    """Return the code of a matrix for swscale; RGB counts as BT.601."""
    if matrix not in (0, 1, 2, 4, 5, 6, 7, 9):
        raise ValueError("swscale does not support this matrix")
    return matrix or Colorspace.ITU601


def has_side_data(packet: Packet[Any], kind: SideDataKind, *, unknown: bool) -> bool:
    """Return whether a packet has side data of a kind; `unknown` with PyAV before 16."""
    return bool(packet.has_sidedata(kind)) if hasattr(packet, "has_sidedata") else unknown


def copy_side_data(packet: Packet[Any], kind: SideDataKind, to: Packet[Any]) -> None:
    """Copy side data of a kind to a packet that lacks it; nothing with PyAV before 16."""
    if has_side_data(packet, kind, unknown=False) and not to.has_sidedata(kind):
        to.set_sidedata(packet.get_sidedata(kind))


def may_change_extradata(source: Source, container: str) -> bool:
    """Return whether packets may have new extradata that PyAV hides; False with PyAV 16 and newer.

    Raises:
        OSError: the source cannot be read.
    """
    if hasattr(Packet, "has_sidedata"):
        return False
    if "mov" not in container.split(","):
        return container in _MAY_CHANGE
    with source.open_bytes() as file:
        return _max_descriptions(file) != 1


def _max_descriptions(file: BinaryIO) -> int:
    """Return the maximum number of sample descriptions of a track; 0 if none is found.

    Source: ISO/IEC 14496-12, 4.2 and 8.5.2.
    """
    stop = file.seek(0, os.SEEK_END)
    count = offset = 0
    while offset + 16 <= stop:
        file.seek(offset)
        size, kind, large = struct.unpack(">I4sQ", file.read(16))
        if kind == b"stsd":
            count = max(count, large & 0xFFFF_FFFF)
        if kind in _BOXES:  # its children follow
            offset += 16 if size == 1 else 8
        else:
            offset += max(large if size == 1 else size or stop, 8)
    return count
