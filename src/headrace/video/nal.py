"""NAL units, parameter sets, picture and sequence headers, in packets and extradata.

Sources: ITU-T H.264, 7.3.2.1, 7.4.1 and E.1; ITU-T H.265, 7.3.2.2, 7.3.3 and table 7-1; VP9
bitstream specification, 6.2; ISO/IEC 13818-2, 6.2.2.3 and 6.3.9; ISO/IEC 14496-2, 6.3.5.
"""

from collections.abc import Iterator
from functools import lru_cache
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


_H264_WITH_CHROMA = frozenset((44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244))
"""Profiles whose parameter sets include the chroma format."""
_MAX_REORDER_DEPTH: Final = 16
"""Largest reorder depth of H.264."""
_HEADER_BYTES: Final = 1024
"""Number of first bytes of a header that are parsed."""


class SequenceHeader(NamedTuple):
    """Declarations of a stream's sequence headers."""

    is_progressive: bool = False
    """Whether no picture is coded in fields."""
    reorder_depth: int | None = None
    """Number of frames that a decoder holds back to output them in order; None if not declared."""


class _Bits:
    """Bit reader of a payload."""

    def __init__(self, payload: bytes) -> None:
        data = payload[:_HEADER_BYTES].replace(b"\0\0\3", b"\0\0")
        self._value, self._left = int.from_bytes(data, "big"), 8 * len(data)

    def u(self, count: int = 1) -> int:
        """Return the next bits as a number. Raises ValueError past the end."""
        self._left -= count
        if self._left < 0:
            raise ValueError("the header is truncated")
        return self._value >> self._left & ((1 << count) - 1)

    def ue(self, count: int = 1) -> int:
        """Read `count` unsigned Exp-Golomb codes; return the last."""
        number = 0
        for _ in range(count):
            zeros = 0
            while not self.u():
                zeros += 1
            number = (1 << zeros | self.u(zeros)) - 1
        return number


@lru_cache(maxsize=64)
def sequence_header(codec: str, extradata: bytes | None) -> SequenceHeader:
    """Return the declarations that all sequence headers share: field coding and reorder depth.

    For PyAV versions that do not expose them: see `pyav_version`. Headers with rare features of
    H.264 are not parsed: scaling matrices, cycles of picture order and HRD parameters.

    Args:
        codec: FFmpeg's name of the codec; only H.264, HEVC and MPEG-2 are parsed.
        extradata: The codec's extradata: avcC, hvcC or with start codes.
    """
    reader = {"h264": _h264, "hevc": _hevc, "mpeg2video": _mpeg2}.get(codec)
    try:
        headers = [reader(_Bits(data)) for data in _payloads(codec, extradata)] if reader else []
    except (ValueError, IndexError):
        headers = []
    depths = [header.reorder_depth for header in headers]
    known = [depth for depth in depths if depth is not None]
    return SequenceHeader(
        is_progressive=bool(headers) and all(header.is_progressive for header in headers),
        reorder_depth=min(known) if known and len(known) == len(depths) else None,
    )


def _payloads(codec: str, extradata: bytes | None) -> Iterator[bytes]:
    """Yield the payload of each sequence parameter set, or sequence extension."""
    for unit in _units(codec, extradata or b""):
        if codec == "mpeg2video":
            if unit[0] == 0xB5 and unit[1] >> 4 == 1:
                yield bytes(unit[1:])
        elif codec == "h264":
            if unit[0] & 0x1F == SETS[codec][0]:
                yield bytes(unit[1:])
        elif unit[0] >> 1 & 0x3F == SETS[codec][0] and (unit[0] & 1, unit[1] >> 3) == (0, 0):
            yield bytes(unit[2:])


def _units(codec: str, extradata: bytes) -> Iterator[memoryview]:
    """Yield the units of extradata; of avcC only the sequence parameter sets."""
    data = memoryview(extradata)
    if not length_size(codec, extradata):
        yield from units(data, 0)
        return
    is_h264 = codec == "h264"
    offset = 5 if is_h264 else 23
    for _ in range(1 if is_h264 else data[22]):
        offset, count = (
            (offset + 1, data[offset] & 0x1F)
            if is_h264
            else (offset + 3, int.from_bytes(data[offset + 1 : offset + 3], "big"))
        )
        for _ in range(count):
            stop = offset + 2 + int.from_bytes(data[offset : offset + 2], "big")
            yield data[offset + 2 : stop]
            offset = stop


def _h264(bits: _Bits) -> SequenceHeader:
    has_chroma = bits.u(8) in _H264_WITH_CHROMA
    bits.u(16)
    bits.ue()
    if has_chroma:
        bits.u(1 if bits.ue() == 3 else 0)
        bits.ue(2)
        bits.u()
        if bits.u():
            raise ValueError("scaling matrices are not parsed")
    bits.ue()
    if (kind := bits.ue()) == 1:
        raise ValueError("cycles of picture order are not parsed")
    bits.ue(1 if kind == 0 else 0)
    bits.ue()
    bits.u()
    bits.ue(2)
    is_progressive = bool(bits.u())
    bits.u(1 if is_progressive else 2)
    bits.ue(4 * bits.u())  # cropping
    return SequenceHeader(is_progressive, _h264_reorder_depth(bits) if bits.u() else None)


def _h264_reorder_depth(bits: _Bits) -> int | None:
    if bits.u() and bits.u(8) == 255:  # pixel aspect
        bits.u(32)
    bits.u(bits.u())  # overscan
    if bits.u():  # range and colors
        bits.u(4)
        bits.u(24 * bits.u())
    bits.ue(2 * bits.u())  # chroma location
    bits.u(65 * bits.u())  # frame rate
    if bits.u(2):  # HRD parameters
        return None
    bits.u()
    if not bits.u():
        return None
    bits.u()
    bits.ue(4)
    depth = bits.ue()
    return depth if depth <= _MAX_REORDER_DEPTH else None


def _hevc(bits: _Bits) -> SequenceHeader:
    bits.u(4)
    sublayers = bits.u(3)
    bits.u(1 + 96)  # profile, tier and level
    present = [(bits.u(), bits.u()) for _ in range(8 if sublayers else 0)]
    for has_profile, has_level in present[:sublayers]:
        bits.u(88 * has_profile + 8 * has_level)
    bits.ue()
    bits.u(1 if bits.ue() == 3 else 0)
    bits.ue(2)
    bits.ue(4 * bits.u())  # cropping
    bits.ue(3)
    depth = 0
    for _ in range(sublayers + 1 if bits.u() else 1):
        depth = bits.ue(2)
        bits.ue()
    return SequenceHeader(reorder_depth=depth)


def _mpeg2(bits: _Bits) -> SequenceHeader:
    bits.u(12)
    return SequenceHeader(is_progressive=bool(bits.u()))
