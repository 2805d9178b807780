"""MP4 files with several sample descriptions: one track in which the codec is set up anew."""

from pathlib import Path
from typing import NamedTuple

from headrace.errors import ConfigError
from headrace.testing.mp4_boxes import (
    SAMPLE_TABLE,
    children,
    find,
    get,
    has,
    put,
    replace_payload,
    video_box,
    whole,
)


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
