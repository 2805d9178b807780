"""MP4 files whose tables lie: box by box, on the bytes of a finished file.

Each function reads `path`, writes `out` and returns it. What is patched belongs to the first video
track. Source: ISO/IEC 14496-12, section 8.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

from headrace.errors import ConfigError
from headrace.testing.mp4_boxes import (
    SAMPLE_TABLE,
    find,
    get,
    put,
    replace_payload,
    video_box,
    whole,
)


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
