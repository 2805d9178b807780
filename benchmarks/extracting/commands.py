"""The commands that take frames out of videos, as a user would type them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Command = list[str]
Way = Callable[[Sequence[Path], str, int, str, Path], list[Command]]
"""Videos, `fps` or `keyframes`, rate, format and folder → commands, a folder for each video's."""

_QUALITY = {"jpg": ["-q:v", "2"], "png": []}
"""Of FFmpeg's encoders: 2 is the best of jpg that its guides advise."""


def headrace(
    paths: Sequence[Path], frames: str, rate: int, picture: str, out: Path
) -> list[Command]:
    """One command for all videos."""
    which = ["--keyframes"] if frames == "keyframes" else ["--fps", str(rate)]
    command = [sys.executable, "-m", "headrace", "extract", "frames", *map(str, paths)]
    return [[*command, "-o", str(out), *which, "--format", picture, "--json"]]


def ffmpeg(paths: Sequence[Path], frames: str, rate: int, picture: str, out: Path) -> list[Command]:
    """A command for each video.

    `fps` takes the frame nearest to the middle of each second; rounding up makes it take the frame
    that is shown when the second begins, as headrace does, at the same cost. `-skip_frame nokey`
    decodes keyframes alone.
    """
    if frames == "keyframes":
        before, after = ["-skip_frame", "nokey"], ["-fps_mode", "passthrough"]
    else:
        before, after = [], ["-vf", f"fps={rate}:round=up:eof_action=pass"]
    begin, after = ["ffmpeg", "-v", "error", "-nostdin", *before], [*after, *_QUALITY[picture]]
    return [
        [*begin, "-i", str(path), *after, str(out / f"{number:03d}_%06d.{picture}")]
        for number, path in enumerate(paths)
    ]


def ffmpeg_predicted(
    paths: Sequence[Path], frames: str, rate: int, picture: str, out: Path
) -> list[Command]:
    """With PNG's filters, which FFmpeg leaves out unless asked: files as small as Pillow's."""
    commands = ffmpeg(paths, frames, rate, picture, out)
    return [[*command[:-1], "-pred", "mixed", command[-1]] for command in commands]


WAYS: Mapping[str, Way] = {
    "headrace": headrace,
    "ffmpeg": ffmpeg,
    "ffmpeg_at_once": ffmpeg,
    "ffmpeg_predicted": ffmpeg_predicted,
}
