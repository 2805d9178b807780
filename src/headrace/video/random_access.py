"""Random access: whether a keyframe's bytes guarantee that decoding can start there.

Sources: ITU-T H.264, 7.4.1 and D.2.8 (recovery point); ITU-T H.265, table 7-1; ISO/IEC 13818-2,
6.2.2; ISO/IEC 14496-2, 6.2.5; RFC 6386, 9.1; VP9 bitstream specification, 6.2; AV1 bitstream
specification, 5.9.2.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from itertools import islice
from types import MappingProxyType
from typing import Final

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
