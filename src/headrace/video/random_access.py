"""Random access and flags of a packet, by its bytes: where decoding can start, what can be dropped.

Sources: ITU-T H.264, 7.4.1 (`nal_ref_idc`) and D.2.8 (recovery point); ITU-T H.265, table 7-1;
ISO/IEC 13818-2, 6.2.2 and 6.3.9 (`picture_coding_type`); ISO/IEC 14496-2, 6.2.5 and 6.3.5
(`vop_coding_type`); RFC 6386, 9.1 (`show_frame` of VP8); VP9 bitstream specification, 6.2 and 7.2;
AV1 bitstream specification, 5.9.2.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeAlias

from headrace.video import nal

_H264_IDR, _H264_SEI = 5, 6
_RECOVERY_POINT = 6
_OBU_FRAME_HEADER, _OBU_FRAME = 3, 6


class RandomAccess(IntEnum):
    """Reliability of a keyframe as an entry for decoding. Indexes store the numbers."""

    UNVERIFIED = 0
    """Unknown: frames are compared with a decode from a guaranteed entry."""
    INTRA = 1
    """Valid if the decoder outputs an intra keyframe, by the packet's header."""
    SIGNALED = 2
    """Signaled by the stream; valid unless the decoder reports damage."""
    GUARANTEED = 3
    """By the standard, no later frame refers to an earlier one."""


def classify_keyframe(
    codec: str, packet: memoryview, nal_length_size: int, *, is_intra_only: bool
) -> RandomAccess:
    """Return the random access of a keyframe's packet.

    Args:
        codec: FFmpeg's name of the codec.
        packet: The payload.
        nal_length_size: See `nal.length_size`.
        is_intra_only: Whether no frame of the codec refers to another.
    """
    if is_intra_only and codec not in _REPEATS_FRAMES:
        return RandomAccess.GUARANTEED
    if codec not in KEYFRAME_RULES:
        return RandomAccess.UNVERIFIED
    return KEYFRAME_RULES[codec](packet, nal_length_size)


def _h264_access(packet: memoryview, nal_length_size: int) -> RandomAccess:
    access = RandomAccess.UNVERIFIED
    for kind, unit in nal.typed_units("h264", packet, nal_length_size):
        if kind == _H264_IDR:
            return RandomAccess.GUARANTEED
        if kind == _H264_SEI and _is_exact_recovery_point(bytes(unit[1:256])):
            access = RandomAccess.SIGNALED
    return access


def _is_exact_recovery_point(payload: bytes) -> bool:
    """Return whether an SEI signals exact frames from this packet on.

    Recovery after some frames (periodic intra refresh) does not count: x264 violates it with short
    periods, and FFmpeg outputs the frames anyway.
    """
    data = iter(payload.replace(b"\x00\x00\x03", b"\x00\x00"))
    while True:
        kind, size = _sei_number(data), _sei_number(data)
        if kind is None or size is None:
            return False
        if kind == _RECOVERY_POINT and size:
            # recovery_frame_cnt 0, as an ue(v) of one bit; exact_match_flag; no broken_link_flag
            return next(data, 0) >> 5 == 0b110
        next(islice(data, size, size), None)


def _sei_number(data: Iterator[int]) -> int | None:
    """Return the next number, the sum of bytes up to the first below 255; None at the end."""
    number = 0
    for byte in data:
        number += byte
        if byte != 0xFF:
            return number
    return None


def _is_irap(packet: memoryview, nal_length_size: int) -> bool:
    units = nal.typed_units("hevc", packet, nal_length_size)
    return any(kind in nal.HEVC_RANDOM_ACCESS for kind, _ in units)


def _has_sequence_header(packet: memoryview, _: int) -> bool:
    data = bytes(packet[:4096])
    return 0 <= data.find(nal.MPEG_SEQUENCE) < data.find(nal.MPEG_PICTURE)


def _is_vp8_key(packet: memoryview, _: int) -> bool:
    return len(packet) >= 10 and packet[0] & 1 == 0 and bytes(packet[3:6]) == b"\x9d\x01\x2a"


def _is_av1_key(packet: memoryview, _: int) -> bool:
    """Return whether the first frame is a shown keyframe."""
    for kind, payload in _obus(packet):
        if kind in (_OBU_FRAME_HEADER, _OBU_FRAME) and len(payload):
            # show_existing_frame = 0, frame_type = 0 (key), show_frame = 1
            return payload[0] >> 4 == 0b0001
    return False


def _obus(packet: memoryview) -> Iterator[tuple[int, memoryview]]:
    offset = 0
    while offset < len(packet):
        header = packet[offset]
        offset += 2 if header >> 2 & 1 else 1
        size, shift = 0, 0
        if not header >> 1 & 1:
            yield header >> 3 & 15, packet[offset:]
            return
        while offset < len(packet) and shift < 56:
            byte = packet[offset]
            size, shift, offset = size | (byte & 0x7F) << shift, shift + 7, offset + 1
            if byte < 0x80:
                break
        yield header >> 3 & 15, packet[offset : offset + size]
        offset += size


def _guaranteed_if(
    is_guaranteed: Callable[[memoryview, int], bool],
    otherwise: RandomAccess = RandomAccess.UNVERIFIED,
) -> Callable[[memoryview, int], RandomAccess]:
    return lambda packet, length: (
        RandomAccess.GUARANTEED if is_guaranteed(packet, length) else otherwise
    )


_INTRA_CODECS = (
    *("ffv1", "flv1", "h261", "h263", "msmpeg4v2", "msmpeg4v3", "png", "rv10", "rv20", "snow"),
    *("theora", "wmv1", "wmv2", "zmbv"),
)
KEYFRAME_RULES: Final[Mapping[str, Callable[[memoryview, int], RandomAccess]]] = MappingProxyType(
    {
        "h264": _h264_access,
        "hevc": _guaranteed_if(_is_irap),
        "av1": _guaranteed_if(_is_av1_key),
        "vp8": _guaranteed_if(_is_vp8_key),
        "vp9": _guaranteed_if(lambda packet, _: nal.vp9_header(packet).is_key),
        "mpeg1video": _guaranteed_if(_has_sequence_header, RandomAccess.SIGNALED),
        "mpeg2video": _guaranteed_if(_has_sequence_header, RandomAccess.SIGNALED),
        "mpeg4": lambda _packet, _length: RandomAccess.SIGNALED,
        **dict.fromkeys(_INTRA_CODECS, lambda _packet, _length: RandomAccess.INTRA),
    }
)
"""Codec -> random access of a keyframe's packet.

Decoding from each keyframe of these codecs yields the frames of a linear decode, whatever the
container flags: `tests/decode/test_exact.py`. Other codecs are unverified. FFmpeg's decoders of MS
Video 1, MS RLE, RPZA, SMC, QuickTime Animation, Sorenson Video 1, Flash Screen Video and RoQ flag
no frame as key, Cinepak's decoder some, APNG's all. VC-1, VP6, RealVideo 3 and 4, Indeo and the
rest have no encoder in FFmpeg, so they are not tested."""

_REPEATS_FRAMES = frozenset(["fraps", "mscc", "mss2", "srgc"])
"""Codecs that FFmpeg calls intra-only, but whose decoders repeat or update the previous frame:
libavcodec's `fraps.c`, `mscc.c` and `mss2.c`."""


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

    Cost: one call per packet; under 0.2 µs for most H.264 packets in MP4, where the first byte
    decides.

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
