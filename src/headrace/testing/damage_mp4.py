"""MP4 files whose tables lie: box by box, on the bytes of a finished file.

Each function reads `path`, writes `out` and returns it. What is patched belongs to the first video
track. Source: ISO/IEC 14496-12, section 8.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.errors import ConfigError

_SAMPLE_TABLE = ("mdia", "minf", "stbl")


def lie_about_keyframes(
    path: Path, out: Path, *, lie: Literal["every", "first", "shifted"]
) -> Path:
    """Change the sync sample table: every sample is a keyframe, only the first, or the next ones.

    Raises:
        ConfigError: the file has no sync sample table, so that every sample is a keyframe already.
    """
    data = bytearray(path.read_bytes())
    table = _video_box(data, *_SAMPLE_TABLE, "stss")
    if lie == "every":
        # A track without this table has nothing but keyframes.
        data[table.start + 4 : table.start + 8] = b"free"
    elif lie == "first":
        _put(data, table.payload + 4, 1)
    else:
        for place in range(table.payload + 12, table.stop, 4):
            _put(data, place, _get(data, place) + 1)
    return _written(out, data)


def split_edit_list(
    path: Path, out: Path, *, segments: Sequence[tuple[Fraction, Fraction]]
) -> Path:
    """Show only `segments`, each (start_seconds, duration_seconds) counted from the first frame.

    Packets between them stay in the file; frames between them are not shown.
    """
    data = bytearray(path.read_bytes())
    edits = _video_box(data, "edts", "elst")
    media_ticks = _get(data, _video_box(data, "mdia", "mdhd").payload + 12)
    movie_ticks = _get(data, _find(data, _whole(data), "moov", "mvhd").payload + 12)
    if data[edits.payload]:
        raise ConfigError(f"{path} has a 64-bit edit list; write the clip with a start below 2^31")
    first_media_time = _get(data, edits.stop - 8)
    payload = bytearray(4) + len(segments).to_bytes(4, "big")
    for start_seconds, duration_seconds in segments:
        payload += round(duration_seconds * movie_ticks).to_bytes(4, "big")
        payload += (first_media_time + round(start_seconds * media_ticks)).to_bytes(4, "big")
        payload += 0x0001_0000.to_bytes(4, "big")
    _replace_payload(data, edits, bytes(payload))
    return _written(out, data)


def lie_about_dimensions(path: Path, out: Path, *, side: int = 65_535) -> Path:
    """Have the track header and the sample entry say the picture is `side` by `side` pixels."""
    data = bytearray(path.read_bytes())
    header = _video_box(data, "tkhd")
    for place in (header.stop - 8, header.stop - 4):
        _put(data, place, side << 16)
    entry = _video_box(data, *_SAMPLE_TABLE, "stsd").payload + 8
    _put(data, entry + 32, side << 16 | side)
    return _written(out, data)


def lie_about_sample_count(path: Path, out: Path, *, count: int = 0x7FFF_FFFF) -> Path:
    """Have the sample size table say that `count` sizes follow, with no more bytes than before."""
    data = bytearray(path.read_bytes())
    _put(data, _video_box(data, *_SAMPLE_TABLE, "stsz").payload + 8, count)
    return _written(out, data)


def zero_display_matrix(path: Path, out: Path) -> Path:
    """Fill the display matrix with zeros: a rotation that is not a number."""
    data = bytearray(path.read_bytes())
    header = _video_box(data, "tkhd")
    data[header.stop - 44 : header.stop - 8] = bytes(36)
    return _written(out, data)


class _Box(NamedTuple):
    kind: str
    start: int
    payload: int
    stop: int


def _video_box(data: bytearray, *names: str) -> _Box:
    """Find a box by its path inside the first track that has a video media header."""
    movie = _find(data, _whole(data), "moov")
    for track in _children(data, movie):
        if track.kind == "trak" and _has(data, track, "mdia", "minf", "vmhd"):
            return _find(data, track, *names)
    raise ConfigError("no video track in this file; give an MP4 with video")


def _find(data: bytearray, parent: _Box, *names: str) -> _Box:
    for name in names:
        matches = [box for box in _children(data, parent) if box.kind == name]
        if not matches:
            raise ConfigError(f"no box {name!r} in {parent.kind!r}; found none to patch")
        parent = matches[0]
    return parent


def _has(data: bytearray, parent: _Box, *names: str) -> bool:
    try:
        _find(data, parent, *names)
    except ConfigError:
        return False
    return True


def _children(data: bytearray, parent: _Box) -> Iterator[_Box]:
    start = parent.payload
    while start + 8 <= parent.stop:
        size, header = _get(data, start), 8
        if size == 1:
            size, header = int.from_bytes(data[start + 8 : start + 16], "big"), 16
        stop = start + size if size else parent.stop
        yield _Box(data[start + 4 : start + 8].decode("latin-1"), start, start + header, stop)
        start = stop


def _whole(data: bytearray) -> _Box:
    return _Box("file", 0, 0, len(data))


def _replace_payload(data: bytearray, box: _Box, payload: bytes) -> None:
    """Give a box another length: chunks behind it move, and its ancestors grow."""
    growth = len(payload) - (box.stop - box.payload)
    movie, *_ = ancestors = _ancestors(data, box)
    for track in (child for child in _children(data, movie) if child.kind == "trak"):
        offsets = _find(data, track, *_SAMPLE_TABLE, "stco")
        for place in range(offsets.payload + 8, offsets.stop, 4):
            if _get(data, place) >= box.stop:
                _put(data, place, _get(data, place) + growth)
    for grown in (*ancestors, box):
        _put(data, grown.start, _get(data, grown.start) + growth)
    data[box.payload : box.stop] = payload


def _ancestors(data: bytearray, box: _Box) -> list[_Box]:
    chain: list[_Box] = []
    parent = _whole(data)
    while parent := next(c for c in _children(data, parent) if c.start <= box.start < c.stop):
        if parent == box:
            break
        chain.append(parent)
    return chain


def _get(data: bytearray, place: int) -> int:
    return int.from_bytes(data[place : place + 4], "big")


def _put(data: bytearray, place: int, value: int) -> None:
    data[place : place + 4] = value.to_bytes(4, "big")


def _written(out: Path, data: bytearray) -> Path:
    out.write_bytes(data)
    return out
