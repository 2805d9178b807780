"""One look at a packet before it is decoded: all that a scan wants to know of every packet.

Only what the bitstream states is used: `nal_ref_idc` of H.264 (ITU-T H.264, 7.4.1), the sub-layer
non-reference types of HEVC (ITU-T H.265, table 7-1), `show_frame` of VP8 (RFC 6386, 9.1) and VP9
(VP9 bitstream specification, 7.2), `picture_coding_type` of MPEG-1 and 2 (ISO/IEC 13818-2, 6.3.9),
`vop_coding_type` of MPEG-4 (ISO/IEC 14496-2, 6.3.5).

Cost: one call a packet; under 0.2 µs for most of H.264 in MP4, whose first byte tells all.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from headrace.video import nal

KEYFRAME: Final = 1
"""Decoding can start here: FFmpeg's flag where its parser has corrected it. For other codecs the
flag repeats what the container's table says, and such tables lie: the picture's own type decides.
"""
DROPPABLE: Final = 2
"""No other frame refers to this one, as far as its header tells; its absence is always safe. HEVC
with temporal layers is never called so: there, such a frame may still serve a higher layer. Nor
MPEG-4: a packet of its may hold a second picture, which others refer to."""
HIDDEN: Final = 4
"""The frame is decoded and never shown (VP8, VP9)."""
MAY_TELL: Final = 8
"""Parameter sets may stand before its first slice (H.264, HEVC): `nal.parameter_sets` has them."""

Glance: TypeAlias = Callable[[memoryview, bool], int]
"""(packet, the container's own flag of a keyframe) → the sum of the above that hold."""

_HEVC_NON_REFERENCE = frozenset((0, 2, 4, 6, 8, 10, 12, 14))
_I_PICTURE, _B_PICTURE = 1, 3
_UNCLEAR: Final = -1
_H264_FIRST_BYTES = tuple(
    _UNCLEAR if byte & 0x1F not in nal.H264_SLICES else 0 if byte >> 5 & 3 else DROPPABLE
    for byte in range(256)
)
"""What the first byte of the first NAL unit says, as most packets begin with a slice."""


def glance_of(codec: str, nal_length_size: int) -> Glance:
    """Return how packets of a stream are looked at.

    Args:
        codec: FFmpeg's name of it.
        nal_length_size: See `nal.length_size`.
    """
    if codec == "h264":
        return partial(_h264_by_length if nal_length_size else _h264, nal_length_size)
    if codec == "hevc":
        return partial(_hevc, nal_length_size)
    if codec in ("mpeg1video", "mpeg2video", "mpeg4"):
        return partial(_mpeg, codec)
    return {"vp8": _vp8, "vp9": _vp9}.get(codec, _other)


def _h264_by_length(nal_length_size: int, packet: memoryview, said: bool) -> int:
    if len(packet) > nal_length_size:
        found = _H264_FIRST_BYTES[packet[nal_length_size]]
        if found >= 0:
            return found | said
    return _h264(nal_length_size, packet, said)


def _h264(nal_length_size: int, packet: memoryview, said: bool) -> int:
    found = KEYFRAME if said else 0
    for unit in nal.units(packet, nal_length_size):
        kind = unit[0] & 0x1F
        if kind in nal.H264_SLICES:
            return found if unit[0] >> 5 & 3 else found | DROPPABLE
        if kind in nal.SETS["h264"]:
            found |= MAY_TELL
    return found


def _hevc(nal_length_size: int, packet: memoryview, said: bool) -> int:
    found = 0
    is_before_slices = True
    for unit in nal.units(packet, nal_length_size):
        kind = unit[0] >> 1 & 0x3F
        if kind in nal.HEVC_RANDOM_ACCESS:
            found |= KEYFRAME
        if kind >= nal.HEVC_SLICES:
            if is_before_slices and kind in nal.SETS["hevc"]:
                found |= MAY_TELL
        elif is_before_slices:
            is_before_slices = False
            if kind in _HEVC_NON_REFERENCE and unit[1] & 7 == 1:
                found |= DROPPABLE
    return found


def _mpeg(codec: str, packet: memoryview, said: bool) -> int:
    kind = nal.picture_type(codec, packet)
    if kind == _I_PICTURE:
        return KEYFRAME
    return DROPPABLE if kind == _B_PICTURE and codec != "mpeg4" else 0


def _vp8(packet: memoryview, said: bool) -> int:
    is_hidden = len(packet) > 0 and packet[0] >> 4 & 1 == 0
    return (KEYFRAME if said else 0) | (HIDDEN if is_hidden else 0)


def _vp9(packet: memoryview, said: bool) -> int:
    if not packet:
        return 0
    header = nal.vp9_header(packet)
    is_superframe = packet[-1] >> 5 == 0b110
    is_hidden = not is_superframe and not header.is_shown
    return (KEYFRAME if header.is_key else 0) | (HIDDEN if is_hidden else 0)


def _other(packet: memoryview, said: bool) -> int:
    return KEYFRAME if said else 0
