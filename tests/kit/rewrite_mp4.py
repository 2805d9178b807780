"""MP4 files whose tables lie, or hold two sample descriptions: box by box, on the bytes of a file.

What is patched belongs to the first video track; each function returns the file that it wrote.
Source: ISO/IEC 14496-12, sections 4.2 and 8."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.errors import ConfigError


def lie_about_keyframes(
    path: Path, out: Path, *, lie: Literal["every", "first", "shifted"]
) -> Path:
    """Change the sync sample table: every sample is a keyframe, only the first, or the next ones.

    Raises:
        ConfigError: the file has no sync sample table, so that every sample is a keyframe already.
    """
    data = bytearray(path.read_bytes())
    table = video_box(data, *SAMPLE_TABLE, "stss")
    if lie == "every":
        # A track without this table has nothing but keyframes.
        data[table.start + 4 : table.start + 8] = b"free"
    elif lie == "first":
        put(data, table.payload + 4, 1)
    else:
        for place in range(table.payload + 12, table.stop, 4):
            put(data, place, get(data, place) + 1)
    return _written(out, data)


def split_edit_list(
    path: Path, out: Path, *, segments: Sequence[tuple[Fraction, Fraction]]
) -> Path:
    """Show only `segments`, each (start_seconds, duration_seconds) counted from the first frame.

    Packets between them stay in the file; frames between them are not shown.
    """
    data = bytearray(path.read_bytes())
    edits = video_box(data, "edts", "elst")
    media_ticks = get(data, video_box(data, "mdia", "mdhd").payload + 12)
    movie_ticks = get(data, find(data, whole(data), "moov", "mvhd").payload + 12)
    if data[edits.payload]:
        raise ConfigError(f"{path} has a 64-bit edit list; write the clip with a start below 2^31")
    first_media_time = get(data, edits.stop - 8)
    payload = bytearray(4) + len(segments).to_bytes(4, "big")
    for start_seconds, duration_seconds in segments:
        payload += round(duration_seconds * movie_ticks).to_bytes(4, "big")
        payload += (first_media_time + round(start_seconds * media_ticks)).to_bytes(4, "big")
        payload += 0x0001_0000.to_bytes(4, "big")
    replace_payload(data, edits, bytes(payload))
    return _written(out, data)


def hold_times(path: Path, out: Path, *, hold: int = 3) -> Path:
    """Give `hold` samples in a row the same time: all but the last of them last zero ticks.

    Raises:
        ConfigError: the durations of the samples differ already.
    """
    data = bytearray(path.read_bytes())
    table = video_box(data, *SAMPLE_TABLE, "stts")
    if get(data, table.payload + 4) != 1:
        raise ConfigError(f"{path} has durations that differ; write the clip without them")
    count, duration = get(data, table.payload + 8), get(data, table.payload + 12)
    payload = bytearray(4) + count.to_bytes(4, "big")
    for ordinal in range(count):
        lasts = hold * duration if ordinal % hold == hold - 1 else 0
        payload += (1).to_bytes(4, "big") + lasts.to_bytes(4, "big")
    replace_payload(data, table, bytes(payload))
    return _written(out, data)


def lie_about_dimensions(path: Path, out: Path, *, side: int = 65_535) -> Path:
    """Have the track header and the sample entry say the picture is `side` by `side` pixels."""
    data = bytearray(path.read_bytes())
    header = video_box(data, "tkhd")
    for place in (header.stop - 8, header.stop - 4):
        put(data, place, side << 16)
    entry = video_box(data, *SAMPLE_TABLE, "stsd").payload + 8
    put(data, entry + 32, side << 16 | side)
    return _written(out, data)


def lie_about_sample_count(path: Path, out: Path, *, count: int = 0x7FFF_FFFF) -> Path:
    """Have the sample size table say that `count` sizes follow, with no more bytes than before."""
    data = bytearray(path.read_bytes())
    put(data, video_box(data, *SAMPLE_TABLE, "stsz").payload + 8, count)
    return _written(out, data)


def zero_display_matrix(path: Path, out: Path) -> Path:
    """Fill the display matrix with zeros: a rotation that is not a number."""
    data = bytearray(path.read_bytes())
    header = video_box(data, "tkhd")
    data[header.stop - 44 : header.stop - 8] = bytes(36)
    return _written(out, data)


def _written(out: Path, data: bytearray) -> Path:
    out.write_bytes(data)
    return out


def join_descriptions(first: Path, second: Path, out: Path) -> Path:
    """Write one track with the samples of `first`, then those of `second`, and return `out`.

    Each half keeps its own sample description, so that size, profile and parameter sets may
    change between them. Both must be clips of `synth` in one codec, either with B-frames both or
    without.

    Raises:
        ConfigError: one has composition offsets and the other has none.
    """
    data, other = bytearray(first.read_bytes()), bytearray(second.read_bytes())
    ours, theirs = _tables_of(data), _tables_of(other)
    if bool(ours.shifts) != bool(theirs.shifts):
        raise ConfigError(f"of {first} and {second} one has B-frames; write both with or without")
    _stretch(data, other)
    _put_table(data, "stsd", 4, ours.descriptions + theirs.descriptions)
    _put_table(data, "stts", 8, ours.durations + theirs.durations)
    if ours.shifts:
        _put_table(data, "ctts", 8, ours.shifts + theirs.shifts)
    if ours.keyframes:
        later = _moved(theirs.keyframes, by=len(ours.sizes) // 4)
        _put_table(data, "stss", 4, ours.keyframes + later)
    _put_sizes(data, ours.sizes + theirs.sizes)
    _put_chunk_runs(data, ours, theirs)
    # Last, because every table that grows moves the chunks.
    growth = len(theirs.chunks)
    chunks = _moved(_entries(data, "stco"), by=growth)
    end = len(data) + growth
    _put_table(data, "stco", 4, chunks + _moved(theirs.chunks, by=end - theirs.media_start))
    media = other[theirs.media_start : theirs.media_stop]
    out.write_bytes(data + media)
    return out


class _Tables(NamedTuple):
    """The tables of a track, as bytes without the counts in front."""

    descriptions: bytes
    durations: bytes
    shifts: bytes
    keyframes: bytes
    sizes: bytes
    chunk_runs: bytes
    chunks: bytes
    media_start: int
    media_stop: int


def _tables_of(data: bytearray) -> _Tables:
    table = video_box(data, *SAMPLE_TABLE)
    media = find(data, whole(data), "mdat")
    return _Tables(
        descriptions=_entries(data, "stsd"),
        durations=_entries(data, "stts"),
        shifts=_entries(data, "ctts") if has(data, table, "ctts") else b"",
        keyframes=_entries(data, "stss") if has(data, table, "stss") else b"",
        sizes=bytes(data[find(data, table, "stsz").payload + 12 : find(data, table, "stsz").stop]),
        chunk_runs=_entries(data, "stsc"),
        chunks=_entries(data, "stco"),
        media_start=media.start,
        media_stop=media.stop,
    )


def _entries(data: bytearray, kind: str) -> bytes:
    box = video_box(data, *SAMPLE_TABLE, kind)
    return bytes(data[box.payload + 8 : box.stop])


def _put_table(data: bytearray, kind: str, entry_bytes: int, entries: bytes) -> None:
    box = video_box(data, *SAMPLE_TABLE, kind)
    count = 2 if kind == "stsd" else len(entries) // entry_bytes
    head = bytes(data[box.payload : box.payload + 4]) + count.to_bytes(4, "big")
    replace_payload(data, box, head + entries)


def _put_sizes(data: bytearray, sizes: bytes) -> None:
    box = video_box(data, *SAMPLE_TABLE, "stsz")
    head = bytes(8) + (len(sizes) // 4).to_bytes(4, "big")
    replace_payload(data, box, head + sizes)


def _put_chunk_runs(data: bytearray, ours: _Tables, theirs: _Tables) -> None:
    """Runs of chunks: the first chunk, the samples in each, the description they need."""
    runs = ours.chunk_runs
    later = bytearray(theirs.chunk_runs)
    for place in range(0, len(later), 12):
        put(later, place, get(later, place) + len(ours.chunks) // 4)
        put(later, place + 8, 2)
    _put_table(data, "stsc", 12, runs + bytes(later))


def _moved(numbers: bytes, *, by: int) -> bytes:
    moved = bytearray(numbers)
    for place in range(0, len(moved), 4):
        put(moved, place, get(moved, place) + by)
    return bytes(moved)


def _stretch(data: bytearray, other: bytearray) -> None:
    """Make track and movie as long as both halves."""
    for names, place in ((("mdia", "mdhd"), 16), (("tkhd",), 20)):
        ours, theirs = video_box(data, *names), video_box(other, *names)
        put(
            data,
            ours.payload + place,
            get(data, ours.payload + place) + get(other, theirs.payload + place),
        )
    header = find(data, whole(data), "moov", "mvhd").payload + 16
    later = find(other, whole(other), "moov", "mvhd").payload + 16
    put(data, header, get(data, header) + get(other, later))
    track = video_box(data)
    if any(box.kind == "edts" for box in children(data, track)):
        edits, more = video_box(data, "edts", "elst"), video_box(other, "edts", "elst")
        put(data, edits.payload + 8, get(data, edits.payload + 8) + get(other, more.payload + 8))


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
