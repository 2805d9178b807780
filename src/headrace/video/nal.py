"""NAL units, parameter sets and picture headers in a packet's bytes.

Sources: ITU-T H.264, 7.4.1; ITU-T H.265, table 7-1; VP9 bitstream specification, 6.2; ISO/IEC
13818-2, 6.3.9; ISO/IEC 14496-2, 6.3.5.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

H264_SLICES = frozenset((1, 2, 3, 4, 5))
SETS = {"h264": (7, 8, 13, 15), "hevc": (33, 32, 34)}
"""Codec -> NAL unit types of parameter sets; the first is the sequence parameter set."""
HEVC_RANDOM_ACCESS = frozenset(range(16, 24))
HEVC_SLICES: Final = 32
"""NAL unit types below this are slices."""
_MPEG4_PICTURE = b"\x00\x00\x01\xb6"
_START_CODE = b"\x00\x00\x01"
MPEG_PICTURE = b"\x00\x00\x01\x00"
MPEG_SEQUENCE = b"\x00\x00\x01\xb3"
_SETUP_BYTES = 4096
"""Number of first bytes of a keyframe's packet that are searched for headers."""


class Vp9Header(NamedTuple):
    """First bits of a VP9 frame (VP9 bitstream specification, 6.2)."""

    shows_existing: bool
    """Whether it has no picture, and shows an earlier one."""
    is_key: bool
    """Whether it is a keyframe: it refers to no other frame, and resets the decoder."""
    is_shown: bool
    """Whether its picture is shown when decoded."""


def length_size(codec: str, extradata: bytes | None) -> int:
    """Return the number of bytes of a NAL unit's length field; 0 for start codes."""
    if not extradata or extradata[0] != 1:
        return 0
    if codec == "h264" and len(extradata) > 4:
        return (extradata[4] & 3) + 1
    if codec == "hevc" and len(extradata) > 21:
        return (extradata[21] & 3) + 1
    return 0


def picture_type(codec: str, packet: memoryview) -> int:
    """Return the type of the first picture of MPEG-1, 2 or 4, by MPEG-1's codes; 0 for none."""
    if codec in ("mpeg1video", "mpeg2video"):
        data = bytes(packet[:_SETUP_BYTES])
        start = data.find(MPEG_PICTURE)
        return data[start + 5] >> 3 & 7 if 0 <= start < len(data) - 5 else 0
    if codec == "mpeg4":
        data = bytes(packet)
        start = data.find(_MPEG4_PICTURE)
        return (data[start + 4] >> 6) + 1 if 0 <= start < len(data) - 4 else 0
    return 0


def vp9_header(packet: memoryview) -> Vp9Header:
    """Return the header of the first frame of a packet."""
    first = packet[0] if len(packet) else 0
    profile = (first >> 5 & 1) | (first >> 4 & 1) << 1
    shift = 2 if profile == 3 else 3
    shows_existing = bool(first >> shift & 1)
    return Vp9Header(
        shows_existing=shows_existing,
        is_key=first >> 6 == 0b10 and not shows_existing and first >> (shift - 1) & 1 == 0,
        is_shown=shows_existing or first >> (shift - 2) & 1 == 1,
    )


def units(packet: memoryview, nal_length_size: int) -> Iterator[memoryview]:
    """Yield every NAL unit of at least two bytes.

    With start codes a unit extends to the end of the packet: only its start is valid.
    """
    if nal_length_size == 0:
        data, offset = bytes(packet), 0
        while (offset := data.find(_START_CODE, offset)) >= 0 and offset + 5 <= len(data):
            yield packet[offset + 3 :]
            offset += 3
        return
    offset = 0
    while offset + nal_length_size + 2 <= len(packet):
        start = offset + nal_length_size
        stop = start + int.from_bytes(packet[offset:start], "big")
        yield packet[start : max(stop, start + 2)]
        offset = stop


def typed_units(
    codec: str, packet: memoryview, nal_length_size: int
) -> Iterator[tuple[int, memoryview]]:
    """Yield (type, NAL unit) of H.264 or HEVC: see `units`."""
    is_h264 = codec == "h264"
    for unit in units(packet, nal_length_size):
        yield unit[0] & 0x1F if is_h264 else unit[0] >> 1 & 0x3F, unit


def setup(codec: str, packet: memoryview) -> bytes | None:
    """Return the picture size of a keyframe's packet as stored; None if it is stored elsewhere.

    It is in the sequence header of MPEG-1 and 2, and in the frame header of VP8.
    """
    if codec in ("mpeg1video", "mpeg2video"):
        data = bytes(packet[:_SETUP_BYTES])
        start = data.find(MPEG_SEQUENCE)
        return data[start + 4 : start + 7] if start >= 0 else None
    if codec == "vp8" and len(packet) >= 10:
        return bytes(packet[6:10])
    return None


class ParameterSet(NamedTuple):
    """A NAL unit with decoding parameters for later units."""

    is_sequence: bool
    """Whether it is a sequence parameter set, which includes the picture size."""
    unit: bytes
    """The unit with its length field or start code, as in the packet."""


def parameter_sets(codec: str, packet: memoryview, nal_length_size: int) -> Iterator[ParameterSet]:
    """Yield the parameter sets before the first slice of an H.264 or HEVC packet."""
    whole = b"" if nal_length_size else bytes(packet)
    for kind, unit in typed_units(codec, packet, nal_length_size):
        if _is_slice(codec, kind):
            break
        if kind not in SETS[codec]:
            continue
        if nal_length_size:
            data = _with_length(unit, nal_length_size)
        else:
            start = len(packet) - len(unit)
            end = whole.find(_START_CODE, start)
            data = whole[start:] if end < 0 else whole[start:end].rstrip(b"\0")
            data = _START_CODE + data
        yield ParameterSet(kind == SETS[codec][0], data)


def preamble(codec: str, packet: memoryview, nal_length_size: int) -> bytes | None:
    """Return a packet's bytes before its picture; None for codecs without headers there.

    They are parameter sets, the encoder's name and other headers; may be empty.
    """
    if codec in SETS:
        headers = bytearray()
        for kind, unit in typed_units(codec, packet, nal_length_size):
            if _is_slice(codec, kind):
                begin = len(packet) - len(unit) - len(_START_CODE)
                return bytes(headers if nal_length_size else packet[:begin])
            if nal_length_size:
                headers += _with_length(unit, nal_length_size)
        return b""
    start_codes = {"mpeg4": _MPEG4_PICTURE, "mpeg1video": MPEG_PICTURE, "mpeg2video": MPEG_PICTURE}
    if codec in start_codes:
        data = bytes(packet)
        return data[: max(0, data.find(start_codes[codec]))]
    return None


def _is_slice(codec: str, kind: int) -> bool:
    return kind in H264_SLICES if codec == "h264" else kind < HEVC_SLICES


def _with_length(unit: memoryview, nal_length_size: int) -> bytes:
    return len(unit).to_bytes(nal_length_size, "big") + bytes(unit)
