"""Packet flags: keyframe, disposable, hidden and parameter sets, read from a packet's bytes.

Sources in the bitstream: `nal_ref_idc` of H.264 (ITU-T H.264, 7.4.1), the sub-layer non-reference
types of HEVC (ITU-T H.265, table 7-1), `show_frame` of VP8 (RFC 6386, 9.1) and VP9 (VP9 bitstream
specification, 7.2), `picture_coding_type` of MPEG-1 and 2 (ISO/IEC 13818-2, 6.3.9),
`vop_coding_type` of MPEG-4 (ISO/IEC 14496-2, 6.3.5).

Cost: one call per packet; under 0.2 µs for most H.264 packets in MP4, where the first byte decides.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from headrace.video import nal

KEYFRAME: Final = 1
"""Decoding can start here. Taken from FFmpeg's flag if FFmpeg's parser sets it; for other codecs
that flag repeats the container's table, which may be wrong, so the picture type decides."""
DISPOSABLE: Final = 2
"""No other frame refers to this one, by its header, so it can be dropped. Never set for HEVC with
temporal layers, where a higher layer may refer to the frame, nor for MPEG-4, whose packets may have
a second picture that others refer to."""
HIDDEN: Final = 4
"""The frame is decoded but never shown (VP8, VP9)."""
MAY_HAVE_PARAMETER_SETS: Final = 8
"""Parameter sets may precede its first slice (H.264, HEVC): see `nal.parameter_sets`."""

PacketFlagsReader: TypeAlias = Callable[[memoryview, bool], int]
"""(packet, FFmpeg's keyframe flag) -> the sum of the flags above."""

_HEVC_NON_REFERENCE = frozenset((0, 2, 4, 6, 8, 10, 12, 14))
_I_PICTURE, _B_PICTURE = 1, 3
_UNCLEAR: Final = -1
_H264_FIRST_BYTES = tuple(
    _UNCLEAR if byte & 0x1F not in nal.H264_SLICES else 0 if byte >> 5 & 3 else DISPOSABLE
    for byte in range(256)
)
"""First byte of the first NAL unit -> flags; most packets start with a slice."""


def packet_flags_reader(codec: str, nal_length_size: int) -> PacketFlagsReader:
    """Return the function that reads the flags of a stream's packets.

    Args:
        codec: FFmpeg's name of the codec.
        nal_length_size: See `nal.length_size`.
    """
    if codec == "h264":
        return partial(_h264_by_length if nal_length_size else _h264, nal_length_size)
    if codec == "hevc":
        return partial(_hevc, nal_length_size)
    if codec in ("mpeg1video", "mpeg2video", "mpeg4"):
        return partial(_mpeg, codec)
    return {"vp8": _vp8, "vp9": _vp9}.get(codec, _other)


def _h264_by_length(nal_length_size: int, packet: memoryview, is_flagged: bool) -> int:
    if len(packet) > nal_length_size:
        flags = _H264_FIRST_BYTES[packet[nal_length_size]]
        if flags >= 0:
            return flags | is_flagged
    return _h264(nal_length_size, packet, is_flagged)


def _h264(nal_length_size: int, packet: memoryview, is_flagged: bool) -> int:
    flags = KEYFRAME if is_flagged else 0
    for unit in nal.units(packet, nal_length_size):
        kind = unit[0] & 0x1F
        if kind in nal.H264_SLICES:
            return flags if unit[0] >> 5 & 3 else flags | DISPOSABLE
        if kind in nal.SETS["h264"]:
            flags |= MAY_HAVE_PARAMETER_SETS
    return flags


def _hevc(nal_length_size: int, packet: memoryview, is_flagged: bool) -> int:
    flags = 0
    is_before_slices = True
    for unit in nal.units(packet, nal_length_size):
        kind = unit[0] >> 1 & 0x3F
        if kind in nal.HEVC_RANDOM_ACCESS:
            flags |= KEYFRAME
        if kind >= nal.HEVC_SLICES:
            if is_before_slices and kind in nal.SETS["hevc"]:
                flags |= MAY_HAVE_PARAMETER_SETS
        elif is_before_slices:
            is_before_slices = False
            if kind in _HEVC_NON_REFERENCE and unit[1] & 7 == 1:
                flags |= DISPOSABLE
    return flags


def _mpeg(codec: str, packet: memoryview, is_flagged: bool) -> int:
    kind = nal.picture_type(codec, packet)
    if kind == _I_PICTURE:
        return KEYFRAME
    return DISPOSABLE if kind == _B_PICTURE and codec != "mpeg4" else 0


def _vp8(packet: memoryview, is_flagged: bool) -> int:
    is_hidden = len(packet) > 0 and packet[0] >> 4 & 1 == 0
    return (KEYFRAME if is_flagged else 0) | (HIDDEN if is_hidden else 0)


def _vp9(packet: memoryview, is_flagged: bool) -> int:
    if not packet:
        return 0
    header = nal.vp9_header(packet)
    is_superframe = packet[-1] >> 5 == 0b110
    is_hidden = not is_superframe and not header.is_shown
    return (KEYFRAME if header.is_key else 0) | (HIDDEN if is_hidden else 0)


def _other(packet: memoryview, is_flagged: bool) -> int:
    return KEYFRAME if is_flagged else 0
