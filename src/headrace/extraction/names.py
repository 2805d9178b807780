"""What pictures are called: by their video, index and time."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from headrace.extraction.pictures import Pictures
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import to_seconds

_LONGEST: Final = 120
"""Bytes of a video's name; a file system takes 255 in all."""
_DIGITS: Final = 6


def video_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each video, no two alike: its stem, or more of its path where that is
    not enough, or a number behind it."""
    known = [_shortened(path.stem) for path in paths]
    depth = 1
    deepest = max((len(path.parts) for path in paths), default=0)
    while len(set(known)) < len(known) and depth < deepest:
        depth += 1
        count = Counter(known)
        known = [
            _shortened(_deeper(path, depth)) if count[name] > 1 else name
            for path, name in zip(paths, known, strict=True)
        ]
    names: dict[str, None] = {}
    for name in known:
        number, free = 1, name
        while free in names:
            number += 1
            free = f"{name}-{number}"
        names[free] = None
    return list(names)


def picture_name(
    prefix: str, video: str, index: int, seconds: Fraction, num_frames: int, suffix: str
) -> str:
    """`shot_street_000120_4.004s.png`: sorted by name they are in order of the video."""
    digits = max(_DIGITS, len(str(num_frames - 1)))
    return f"{prefix}{video}_{index:0{digits}d}_{float(seconds):.3f}s.{suffix}"


def frame_file(pictures: Pictures, video: str, index: StreamIndex, number: int) -> str:
    """Return what the picture of frame `number` of a video is called; `video` is its name."""
    seconds = to_seconds(int(index.pts[number]), index.info.time_base)
    return picture_name(pictures.prefix, video, number, seconds, len(index), pictures.format)


def _deeper(path: Path, depth: int) -> str:
    """`cam1_street` of /data/cam1/street.mp4, for a depth of 2."""
    parts = [part for part in path.parent.parts if part.strip("/")]
    return "_".join([*parts[len(parts) - depth + 1 :], path.stem])


def _shortened(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    if len(data) <= _LONGEST:
        return name
    return data[-_LONGEST:].decode("utf-8", "ignore")
