"""Sequence header: field coding and reorder depth, as declared in a codec's extradata.

For PyAV versions that do not expose them: see `pyav_version`. Headers with rare features of H.264
are not parsed: scaling matrices, cycles of picture order and HRD parameters. Sources: ITU-T H.264,
7.3.2.1 and E.1; ITU-T H.265, 7.3.2.2 and 7.3.3; ISO/IEC 13818-2, 6.2.2.3.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.video import nal

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
    """Return the declarations that all sequence headers share.

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
            if unit[0] & 0x1F == nal.SETS[codec][0]:
                yield bytes(unit[1:])
        elif unit[0] >> 1 & 0x3F == nal.SETS[codec][0] and (unit[0] & 1, unit[1] >> 3) == (0, 0):
            yield bytes(unit[2:])


def _units(codec: str, extradata: bytes) -> Iterator[memoryview]:
    """Yield the units of extradata; of avcC only the sequence parameter sets."""
    data = memoryview(extradata)
    if not nal.length_size(codec, extradata):
        yield from nal.units(data, 0)
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
