"""Transport and program streams whose times repeat or are missing, made by changing bytes.

Each function reads `path`, writes `out` and returns it. It rewrites the headers of the video's
packetized elementary stream (PES). Source: ISO/IEC 13818-1, section 2.4.3.
"""

from collections.abc import Iterator
from itertools import pairwise

from tests.kit.rewrite_mp4 import rewriting

_TS_PACKET = 188
_TS_SYNC = 0x47
_VIDEO_IDS = range(0xE0, 0xF0)


@rewriting
def hold_times(data: bytearray, *, hold: int = 3) -> None:
    """Round times down, so that `hold` packets share each."""
    places = [place for header in _headers(data) for place in _times(data, header)]
    first, *_ = times = sorted({_get(data, place) for place in places})
    step = hold * min(after - before for before, after in pairwise(times))
    for place in places:
        ticks = _get(data, place)
        _put(data, place, ticks - (ticks - first) % step)


@rewriting
def drop_times(data: bytearray, *, keep_every: int = 3) -> None:
    """Remove the times, except those of the first and then each `keep_every`-th that has one."""
    timed = [header for header in _headers(data) if _times(data, header)]
    for ordinal, header in enumerate(timed):
        if ordinal % keep_every:
            _drop(data, header)


def _headers(data: bytearray) -> list[int]:
    """Return the offsets of the video's PES packets."""
    if data[0] == _TS_SYNC:
        starts = _transport_payloads(data)
    else:
        assert data[:4] == b"\x00\x00\x01\xba", "neither a transport nor a program stream"
        starts = _program_packets(data)
    return [s for s in starts if data[s : s + 3] == b"\x00\x00\x01" and data[s + 3] in _VIDEO_IDS]


def _transport_payloads(data: bytearray) -> Iterator[int]:
    for packet in range(0, len(data), _TS_PACKET):
        is_start, has_fields = data[packet + 1] & 0x40, data[packet + 3] & 0x20
        if is_start:
            yield packet + 4 + (1 + data[packet + 4] if has_fields else 0)


def _program_packets(data: bytearray) -> Iterator[int]:
    place = 0
    while place + 6 <= len(data) and data[place : place + 3] == b"\x00\x00\x01":
        kind = data[place + 3]
        if kind == 0xBA:
            is_mpeg2 = data[place + 4] & 0xC0 == 0x40
            place += 14 + (data[place + 13] & 7) if is_mpeg2 else 12
        elif kind == 0xB9:
            place += 4
        else:
            yield place
            place += 6 + int.from_bytes(data[place + 4 : place + 6], "big")


def _times(data: bytearray, header: int) -> list[int]:
    """Return the offsets of the pts and the dts, of five bytes each."""
    if data[header + 6] & 0xC0 == 0x80:
        flags, place = data[header + 7] >> 6, header + 9
    else:
        place = _after_stuffing(data, header)
        flags = data[place] >> 4
    return {2: [place], 3: [place, place + 5]}.get(flags, [])


def _after_stuffing(data: bytearray, header: int) -> int:
    """Return the offset of an MPEG-1 packet's times, after stuffing and buffer size."""
    place = header + 6
    while data[place] == 0xFF:
        place += 1
    return place + 2 if data[place] & 0xC0 == 0x40 else place


def _drop(data: bytearray, header: int) -> None:
    times = _times(data, header)
    length = 5 * len(times)
    if data[header + 6] & 0xC0 == 0x80:
        data[header + 7] &= 0x3F
        data[times[0] : times[0] + length] = b"\xff" * length
    else:
        fields = bytes(data[header + 6 : times[0]])
        rest = fields.lstrip(b"\xff")
        stuffing = b"\xff" * (len(fields) - len(rest) + length - 1)
        data[header + 6 : times[0] + length] = stuffing + rest + b"\x0f"


def _get(data: bytearray, place: int) -> int:
    a, b, c, d, e = data[place : place + 5]
    return (a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1


def _put(data: bytearray, place: int, ticks: int) -> None:
    data[place] = data[place] & 0xF0 | ticks >> 30 << 1 | 1
    for start, bits in ((place + 1, ticks >> 15), (place + 3, ticks)):
        data[start : start + 2] = ((bits & 0x7FFF) << 1 | 1).to_bytes(2, "big")
