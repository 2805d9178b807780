"""NAL units, parameter sets and picture headers in the bytes of a packet.

Sources: ITU-T H.264, 7.4.1; ITU-T H.265, table 7-1; VP9 bitstream specification, 6.2; ISO/IEC
13818-2, 6.3.9; ISO/IEC 14496-2, 6.3.5.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

H264_SLICES = frozenset((1, 2, 3, 4, 5))
SETS = {"h264": (7, 8, 13, 15), "hevc": (33, 32, 34)}
"""Codec -> NAL unit types of parameter sets, the sequence's first."""
HEVC_RANDOM_ACCESS = frozenset(range(16, 24))
HEVC_SLICES: Final = 32
"""NAL unit types below this are slices."""
_MPEG4_PICTURE = b"\x00\x00\x01\xb6"
_START_CODE = b"\x00\x00\x01"
MPEG_PICTURE = b"\x00\x00\x01\x00"
MPEG_SEQUENCE = b"\x00\x00\x01\xb3"
_SETUP_BYTES = 4096
"""Bytes of a keyframe's packet that hold its headers."""


class Vp9Header(NamedTuple):
    """First bits of a VP9 frame (VP9 bitstream specification, 6.2)."""

    shows_existing: bool
    """It has no picture, and shows an earlier one."""
    is_key: bool
    """It is a keyframe: it refers to nothing, and resets the decoder."""
    is_shown: bool
    """Whether its picture is shown when decoded."""


def length_size(codec: str, extradata: bytes | None) -> int:
    """Return the bytes of a NAL unit's length; 0 for start codes."""
    if not extradata or extradata[0] != 1:
        return 0
    if codec == "h264" and len(extradata) > 4:
        return (extradata[4] & 3) + 1
    if codec == "hevc" and len(extradata) > 21:
        return (extradata[21] & 3) + 1
    return 0


def picture_type(codec: str, packet: memoryview) -> int:
    """Return the type of the first picture of MPEG-1, 2 or 4, numbered as in MPEG-1 and 2; or 0."""
    if codec in ("mpeg1video", "mpeg2video"):
        data = bytes(packet[:_SETUP_BYTES])
        at = data.find(MPEG_PICTURE)
        return data[at + 5] >> 3 & 7 if 0 <= at < len(data) - 5 else 0
    if codec == "mpeg4":
        data = bytes(packet)
        at = data.find(_MPEG4_PICTURE)
        return (data[at + 4] >> 6) + 1 if 0 <= at < len(data) - 4 else 0
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
        data, at = bytes(packet), 0
        while (at := data.find(_START_CODE, at)) >= 0 and at + 5 <= len(data):
            yield packet[at + 3 :]
            at += 3
        return
    at = 0
    while at + nal_length_size + 2 <= len(packet):
        start = at + nal_length_size
        stop = start + int.from_bytes(packet[at:start], "big")
        yield packet[start : max(stop, start + 2)]
        at = stop


def typed_units(
    codec: str, packet: memoryview, nal_length_size: int
) -> Iterator[tuple[int, memoryview]]:
    """Yield (type, NAL unit) of H.264 or HEVC: see `units`."""
    is_h264 = codec == "h264"
    for unit in units(packet, nal_length_size):
        yield unit[0] & 0x1F if is_h264 else unit[0] >> 1 & 0x3F, unit


def setup(codec: str, packet: memoryview) -> bytes | None:
    """Return the picture size header of a keyframe's packet: the sequence header of MPEG-1 and 2,
    the size of VP8.

    None for codecs that store it elsewhere.
    """
    if codec in ("mpeg1video", "mpeg2video"):
        data = bytes(packet[:_SETUP_BYTES])
        at = data.find(MPEG_SEQUENCE)
        return data[at + 4 : at + 7] if at >= 0 else None
    if codec == "vp8" and len(packet) >= 10:
        return bytes(packet[6:10])
    return None


class ParameterSet(NamedTuple):
    """A NAL unit with decoding parameters for later units."""

    is_sequence: bool
    """Whether it is a sequence parameter set, which has the picture size."""
    unit: bytes
    """The unit with its length or start code, as in the packet."""


def parameter_sets(codec: str, packet: memoryview, nal_length_size: int) -> Iterator[ParameterSet]:
    """Yield the parameter sets before the first slice of a packet: H.264 and HEVC."""
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
    """Return a packet's bytes before its picture; None for codecs without such headers.

    Parameter sets, the encoder's name, and the like; may be empty.
    """
    if codec in SETS:
        said = bytearray()
        for kind, unit in typed_units(codec, packet, nal_length_size):
            if _is_slice(codec, kind):
                begin = len(packet) - len(unit) - len(_START_CODE)
                return bytes(said if nal_length_size else packet[:begin])
            if nal_length_size:
                said += _with_length(unit, nal_length_size)
        return b""
    marks = {"mpeg4": _MPEG4_PICTURE, "mpeg1video": MPEG_PICTURE, "mpeg2video": MPEG_PICTURE}
    if codec in marks:
        data = bytes(packet)
        return data[: max(0, data.find(marks[codec]))]
    return None


def _is_slice(codec: str, kind: int) -> bool:
    return kind in H264_SLICES if codec == "h264" else kind < HEVC_SLICES


def _with_length(unit: memoryview, nal_length_size: int) -> bytes:
    return len(unit).to_bytes(nal_length_size, "big") + bytes(unit)
