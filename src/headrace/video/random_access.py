"""What a keyframe's own bytes say about decoding from it: whether it is an entry beyond doubt.

Sources: ITU-T H.264, 7.4.1 and D.2.8 (recovery point); ITU-T H.265, table 7-1; ISO/IEC 13818-2,
6.2.2; ISO/IEC 14496-2, 6.2.5; RFC 6386, 9.1; VP9 bitstream specification, 6.2; AV1 bitstream
specification, 5.9.2.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from headrace.video import nal

_H264_IDR, _H264_SEI = 5, 6
_RECOVERY_POINT = 6
_HEVC_RANDOM_ACCESS = range(16, 24)
_MPEG_SEQUENCE = b"\x00\x00\x01\xb3"
_OBU_FRAME_HEADER, _OBU_FRAME = 3, 6


class RandomAccess(IntEnum):
    """How far a keyframe is believed to be a place from which decoding gives the right frames."""

    DOUBTFUL = 0
    """Nothing in its bytes says so: frames are held against a decode from a certain entry."""
    TYPED = 1
    """Believed if the decoder calls its frame an intra keyframe, which it reads in the packet."""
    ANNOUNCED = 2
    """The stream says so; believed as long as the decoder finds no fault."""
    CERTAIN = 3
    """By the standard nothing behind it refers to what is before it."""


def trust(
    codec: str, packet: memoryview, nal_length_size: int, *, is_intra_only: bool
) -> RandomAccess:
    """Return how far the packet of a keyframe is to be believed.

    Args:
        codec: FFmpeg's name of it.
        packet: The payload.
        nal_length_size: See `nal.length_size`.
        is_intra_only: Whether the codec knows no frame that refers to another.
    """
    if is_intra_only and codec not in _KEEPS_PICTURES:
        return RandomAccess.CERTAIN
    if codec not in BELIEVED:
        return RandomAccess.DOUBTFUL
    return BELIEVED[codec](packet, nal_length_size)


def _trust_h264(packet: memoryview, nal_length_size: int) -> RandomAccess:
    found = RandomAccess.DOUBTFUL
    for unit in nal.units(packet, nal_length_size):
        kind = unit[0] & 0x1F
        if kind == _H264_IDR:
            return RandomAccess.CERTAIN
        if kind == _H264_SEI and _is_exact_recovery_point(bytes(unit[1:256])):
            found = RandomAccess.ANNOUNCED
    return found


def _is_exact_recovery_point(payload: bytes) -> bool:
    """Return whether an SEI promises the exact frames from here on, at once.

    Not one that promises them some frames later (periodic intra refresh): x264 does not keep that
    promise with short periods, and FFmpeg shows what it gives.
    """
    payload = payload.replace(b"\x00\x00\x03", b"\x00\x00")
    at = 0
    while at + 2 < len(payload):
        kind = size = 0
        while at < len(payload) and payload[at] == 0xFF:
            kind, at = kind + 255, at + 1
        if at + 1 >= len(payload):
            return False
        kind, at = kind + payload[at], at + 1
        while at < len(payload) and payload[at] == 0xFF:
            size, at = size + 255, at + 1
        if at >= len(payload):
            return False
        size, at = size + payload[at], at + 1
        if kind == _RECOVERY_POINT and size:
            # recovery_frame_cnt 0, as an ue(v) of one bit; exact_match_flag; no broken_link_flag
            return payload[at] >> 5 == 0b110
        at += size
    return False


def _is_irap(packet: memoryview, nal_length_size: int) -> bool:
    kinds = (unit[0] >> 1 & 0x3F for unit in nal.units(packet, nal_length_size))
    return any(kind in _HEVC_RANDOM_ACCESS for kind in kinds)


def _has_sequence_header(packet: memoryview, _: int) -> bool:
    data = bytes(packet[:4096])
    return 0 <= data.find(_MPEG_SEQUENCE) < data.find(nal.MPEG_PICTURE)


def _is_vp8_key(packet: memoryview, _: int) -> bool:
    return len(packet) >= 10 and packet[0] & 1 == 0 and bytes(packet[3:6]) == b"\x9d\x01\x2a"


def _is_vp9_key(packet: memoryview, _: int) -> bool:
    return nal.vp9_header(packet).is_key


def _is_av1_key(packet: memoryview, _: int) -> bool:
    """Return whether the first frame is a keyframe that is shown."""
    for kind, payload in _obus(packet):
        if kind in (_OBU_FRAME_HEADER, _OBU_FRAME) and len(payload):
            # show_existing_frame = 0, frame_type = 0 (key), show_frame = 1
            return payload[0] >> 4 == 0b0001
    return False


def _obus(packet: memoryview) -> Iterator[tuple[int, memoryview]]:
    at = 0
    while at < len(packet):
        header = packet[at]
        at += 2 if header >> 2 & 1 else 1
        size, shift = 0, 0
        if not header >> 1 & 1:
            yield header >> 3 & 15, packet[at:]
            return
        while at < len(packet) and shift < 56:
            byte = packet[at]
            size, shift, at = size | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                break
        yield header >> 3 & 15, packet[at : at + size]
        at += size


def _certain_if(
    is_certain: Callable[[memoryview, int], bool], otherwise: RandomAccess
) -> Callable[[memoryview, int], RandomAccess]:
    return lambda packet, length: RandomAccess.CERTAIN if is_certain(packet, length) else otherwise


def _announced(packet: memoryview, _: int) -> RandomAccess:
    return RandomAccess.ANNOUNCED


def _typed(packet: memoryview, _: int) -> RandomAccess:
    return RandomAccess.TYPED


BELIEVED: Final[Mapping[str, Callable[[memoryview, int], RandomAccess]]] = MappingProxyType(
    {
        "h264": _trust_h264,
        "hevc": _certain_if(_is_irap, RandomAccess.DOUBTFUL),
        "av1": _certain_if(_is_av1_key, RandomAccess.DOUBTFUL),
        "vp8": _certain_if(_is_vp8_key, RandomAccess.DOUBTFUL),
        "vp9": _certain_if(_is_vp9_key, RandomAccess.DOUBTFUL),
        "mpeg1video": _certain_if(_has_sequence_header, RandomAccess.ANNOUNCED),
        "mpeg2video": _certain_if(_has_sequence_header, RandomAccess.ANNOUNCED),
        "mpeg4": _announced,
        "ffv1": _typed,
        "flv1": _typed,
        "h261": _typed,
        "h263": _typed,
        "msmpeg4v2": _typed,
        "msmpeg4v3": _typed,
        "png": _typed,
        "rv10": _typed,
        "rv20": _typed,
        "snow": _typed,
        "theora": _typed,
        "wmv1": _typed,
        "wmv2": _typed,
        "zmbv": _typed,
    }
)
"""Codec to how far the packet of a keyframe is believed.

Decoding from each keyframe of these gives the frames of a linear decode, whatever the container
calls a keyframe: `tests/decode/test_exact.py`. No other codec is believed. FFmpeg's decoders
of MS Video 1, MS RLE, RPZA, SMC, QuickTime Animation, Sorenson Video 1, Flash Screen Video and RoQ
mark no frame, that of Cinepak marks some, that of APNG all. VC-1, VP6, RealVideo 3 and 4, Indeo and
the rest have no encoder in FFmpeg, so nothing was shown of them."""

_KEEPS_PICTURES = frozenset(["fraps", "mscc", "mss2", "srgc"])
"""Codecs that FFmpeg calls intra-only, though their decoders repeat the picture before or paint
over it: libavcodec's `fraps.c`, `mscc.c` and `mss2.c`."""
