"""The boxes of an MP4 file, found and changed on its bytes.

Source: ISO/IEC 14496-12, section 4.2.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headrace.errors import ConfigError

SAMPLE_TABLE = ("mdia", "minf", "stbl")
"""Where the sample table lies in a track."""


class Box(NamedTuple):
    """Where a box lies, as places in the file."""

    kind: str
    start: int
    payload: int
    """Where its header ends."""
    stop: int


def video_box(data: bytearray, *names: str) -> Box:
    """Find a box by its path inside the first track that has a video media header."""
    movie = find(data, whole(data), "moov")
    for track in children(data, movie):
        if track.kind == "trak" and has(data, track, "mdia", "minf", "vmhd"):
            return find(data, track, *names)
    raise ConfigError("no video track in this file; give an MP4 with video")


def find(data: bytearray, parent: Box, *names: str) -> Box:
    """Find a box by its path inside `parent`.

    Raises:
        ConfigError: there is none.
    """
    for name in names:
        matches = [box for box in children(data, parent) if box.kind == name]
        if not matches:
            raise ConfigError(f"no box {name!r} in {parent.kind!r}; found none to patch")
        parent = matches[0]
    return parent


def has(data: bytearray, parent: Box, *names: str) -> bool:
    """Return whether `parent` holds a box at this path."""
    try:
        find(data, parent, *names)
    except ConfigError:
        return False
    return True


def children(data: bytearray, parent: Box) -> Iterator[Box]:
    """Give the boxes directly inside `parent`, in file order."""
    start = parent.payload
    while start + 8 <= parent.stop:
        size, header = get(data, start), 8
        if size == 1:
            size, header = int.from_bytes(data[start + 8 : start + 16], "big"), 16
        stop = start + size if size else parent.stop
        yield Box(data[start + 4 : start + 8].decode("latin-1"), start, start + header, stop)
        start = stop


def whole(data: bytearray) -> Box:
    """Return the file itself as a box."""
    return Box("file", 0, 0, len(data))


def replace_payload(data: bytearray, box: Box, payload: bytes) -> None:
    """Give a box another length: chunks behind it move, and its ancestors grow."""
    growth = len(payload) - (box.stop - box.payload)
    movie, *_ = around = _ancestors(data, box)
    for track in (child for child in children(data, movie) if child.kind == "trak"):
        offsets = find(data, track, *SAMPLE_TABLE, "stco")
        for place in range(offsets.payload + 8, offsets.stop, 4):
            if get(data, place) >= box.stop:
                put(data, place, get(data, place) + growth)
    for grown in (*around, box):
        put(data, grown.start, get(data, grown.start) + growth)
    data[box.payload : box.stop] = payload


def _ancestors(data: bytearray, box: Box) -> list[Box]:
    chain: list[Box] = []
    parent = whole(data)
    while parent := next(c for c in children(data, parent) if c.start <= box.start < c.stop):
        if parent == box:
            break
        chain.append(parent)
    return chain


def get(data: bytearray, place: int) -> int:
    """Return the 32-bit number at `place`."""
    return int.from_bytes(data[place : place + 4], "big")


def put(data: bytearray, place: int, value: int) -> None:
    """Put a 32-bit number at `place`."""
    data[place : place + 4] = value.to_bytes(4, "big")
