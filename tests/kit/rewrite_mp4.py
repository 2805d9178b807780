"""MP4 files with false tables or two sample descriptions, made by changing bytes.

Each function changes the first video track and returns the path that it wrote.
Source: ISO/IEC 14496-12, sections 4.2 and 8.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Concatenate, Literal, NamedTuple, ParamSpec

Options = ParamSpec("Options")


def rewriting(
    change: Callable[Concatenate[bytearray, Options], None],
) -> Callable[Concatenate[Path, Path, Options], Path]:
    """Return a function of a path and `out`, which applies `change` and writes `out`."""

    @wraps(change)
    def rewrite(path: Path, out: Path, /, *args: Options.args, **options: Options.kwargs) -> Path:
        data = bytearray(path.read_bytes())
        change(data, *args, **options)
        out.write_bytes(data)
        return out

    return rewrite


@rewriting
def lie_about_keyframes(data: bytearray, *, lie: Literal["every", "first", "shifted"]) -> None:
    """Mark as keyframes: every sample, only the first, or the one after each keyframe."""
    table = video_box(data, *SAMPLE_TABLE, "stss")
    if lie == "every":
        # Without this table, every sample of a track is a keyframe.
        data[table.start + 4 : table.start + 8] = b"free"
    elif lie == "first":
        put(data, table.payload + 4, 1)
    else:
        add(data, range(table.payload + 12, table.stop, 4), 1)


@rewriting
def split_edit_list(data: bytearray, *, segments: Sequence[tuple[Fraction, Fraction]]) -> None:
    """Show only `segments`, each (start_seconds, duration_seconds) counted from the first frame.

    Packets between them stay in the file; frames between them are not shown.
    """
    edits = video_box(data, "edts", "elst")
    media_ticks = get(data, video_box(data, "mdia", "mdhd").payload + 12)
    movie_ticks = get(data, find(data, whole(data), "moov", "mvhd").payload + 12)
    first_media_time = get(data, edits.stop - 8)
    numbers = [0, len(segments)]
    for start_seconds, duration_seconds in segments:
        start = first_media_time + round(start_seconds * media_ticks)
        numbers += [round(duration_seconds * movie_ticks), start, 0x0001_0000]
    replace_payload(data, edits, packed(*numbers))


@rewriting
def hold_times(data: bytearray, *, hold: int = 3) -> None:
    """Give `hold` samples in a row the same time: all but the last have zero ticks."""
    table = video_box(data, *SAMPLE_TABLE, "stts")
    runs, count, duration = (get(data, table.payload + place) for place in (4, 8, 12))
    assert runs == 1, "the durations must be equal"
    numbers = [0, count]
    for ordinal in range(count):
        numbers += [1, hold * duration if ordinal % hold == hold - 1 else 0]
    replace_payload(data, table, packed(*numbers))


@rewriting
def lie_about_dimensions(data: bytearray, *, side: int = 65_535) -> None:
    """Set width and height in the track header and the sample entry to `side`."""
    header = video_box(data, "tkhd")
    for place in (header.stop - 8, header.stop - 4):
        put(data, place, side << 16)
    entry = video_box(data, *SAMPLE_TABLE, "stsd").payload + 8
    put(data, entry + 32, side << 16 | side)


@rewriting
def lie_about_sample_count(data: bytearray, *, count: int = 0x7FFF_FFFF) -> None:
    """Set the number of sample sizes to `count`, without adding any."""
    put(data, video_box(data, *SAMPLE_TABLE, "stsz").payload + 8, count)


@rewriting
def zero_display_matrix(data: bytearray) -> None:
    """Fill the display matrix with zeros: the rotation becomes NaN."""
    header = video_box(data, "tkhd")
    data[header.stop - 44 : header.stop - 8] = bytes(36)


def join_descriptions(first: Path, second: Path, out: Path) -> Path:
    """Write one track with the samples of `first`, then those of `second`, and return `out`.

    Each half keeps its sample description, so size, profile and parameter sets may change. Both
    must be clips of `synth` in one codec, both with or both without B-frames.
    """
    data, other = bytearray(first.read_bytes()), bytearray(second.read_bytes())
    kinds = (*TABLES, "stco")
    ours, theirs = ({kind: entries_of(each, kind) for kind in kinds} for each in (data, other))
    add(theirs["stss"], range(0, len(theirs["stss"]), 4), len(ours["stsz"]) // 4)
    runs = theirs["stsc"]  # first chunk, samples per chunk, description
    add(runs, range(0, len(runs), 12), len(ours["stco"]) // 4)
    add(runs, range(8, len(runs), 12), 1)
    _stretch(data, other)
    for kind in TABLES:
        if ours[kind]:
            _put_table(data, kind, ours[kind] + theirs[kind])
    # Last, as every longer table moves the chunks.
    media, chunks = find(other, whole(other), "mdat"), entries_of(data, "stco")
    later = theirs["stco"]
    add(chunks, range(0, len(chunks), 4), len(later))
    add(later, range(0, len(later), 4), len(data) + len(later) - media.start)
    _put_table(data, "stco", chunks + later)
    out.write_bytes(data + other[media.start : media.stop])
    return out


TABLES = {"stsd": 0, "stts": 8, "ctts": 8, "stss": 4, "stsz": 4, "stsc": 12}
"""Tables of a track, except the chunk offsets, and the bytes per entry."""


def entries_of(data: bytearray, kind: str) -> bytearray:
    """Return the entries of a table without its header; empty if the table is missing."""
    table = video_box(data, *SAMPLE_TABLE)
    head = 12 if kind == "stsz" else 8
    found = (box for box in children(data, table) if box.kind == kind)
    return next((data[box.payload + head : box.stop] for box in found), bytearray())


def _put_table(data: bytearray, kind: str, entries: bytearray) -> None:
    count = 2 if kind == "stsd" else len(entries) // TABLES.get(kind, 4)
    head = packed(0, 0, count) if kind == "stsz" else packed(0, count)
    replace_payload(data, video_box(data, *SAMPLE_TABLE, kind), head + entries)


def add(data: bytearray, places: Iterable[int], number: int) -> None:
    """Add to the 32-bit numbers at `places`."""
    for place in places:
        put(data, place, get(data, place) + number)


def packed(*numbers: int) -> bytes:
    """Return 32-bit numbers."""
    return b"".join(number.to_bytes(4, "big") for number in numbers)


def _stretch(data: bytearray, other: bytearray) -> None:
    """Add the durations of `other` to those of `data`."""
    places = [(("mdia", "mdhd"), 16), (("tkhd",), 20)]
    if any(box.kind == "edts" for box in children(data, video_box(data))):
        places.append((("edts", "elst"), 8))
    for names, place in places:
        more = get(other, video_box(other, *names).payload + place)
        add(data, [video_box(data, *names).payload + place], more)
    ours, theirs = (find(each, whole(each), "moov", "mvhd").payload + 16 for each in (data, other))
    add(data, [ours], get(other, theirs))


SAMPLE_TABLE = ("mdia", "minf", "stbl")
"""Path of the sample table in a track."""


class Box(NamedTuple):
    """Position of a box, as byte offsets in the file."""

    kind: str
    start: int
    payload: int
    """End of its header."""
    stop: int


def video_box(data: bytearray, *names: str) -> Box:
    """Find a box by its path inside the first track that has a video media header."""
    for track in children(data, find(data, whole(data), "moov")):
        if track.kind == "trak":
            kinds = [box.kind for box in children(data, find(data, track, "mdia", "minf"))]
            if "vmhd" in kinds:
                return find(data, track, *names)
    raise LookupError("no video track in this file")


def find(data: bytearray, parent: Box, *names: str) -> Box:
    """Find a box by its path inside `parent`."""
    for name in names:
        [parent, *_] = [box for box in children(data, parent) if box.kind == name]
    return parent


def children(data: bytearray, parent: Box) -> Iterator[Box]:
    """Yield the boxes directly inside `parent`, in file order."""
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
    """Replace a box's payload; adapt chunk offsets and the sizes of its ancestors."""
    growth = len(payload) - (box.stop - box.payload)
    movie, *_ = around = _ancestors(data, box)
    for track in (child for child in children(data, movie) if child.kind == "trak"):
        offsets = find(data, track, *SAMPLE_TABLE, "stco")
        places = range(offsets.payload + 8, offsets.stop, 4)
        add(data, [place for place in places if get(data, place) >= box.stop], growth)
    add(data, [grown.start for grown in (*around, box)], growth)
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
