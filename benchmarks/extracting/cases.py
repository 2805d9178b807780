"""What is extracted: videos, which of their frames, as which pictures."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av

from benchmarks import media
from benchmarks.extracting.one_keyframe import one_keyframe
from benchmarks.looped import looped

Frames = Literal["fps", "keyframes"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One line of the table."""

    name: str
    kind: str
    """Of the media."""
    videos: int = 1
    times: int = 1
    """That each clip of 10 s is repeated in its video."""
    has_one_keyframe: bool = False
    frames: Frames = "fps"
    rate: int = 1
    """Frames per second of media, where it is by `fps`."""
    format: Literal["jpg", "png"] = "jpg"

    def paths(self, root: Path) -> list[Path]:
        """Return its videos, made where they are missing."""
        clips = media.paths(root, self.kind, self.videos)
        if self.has_one_keyframe:
            clips = [one_keyframe(clip) for clip in clips]
        return [looped(clip, self.times) if self.times > 1 else clip for clip in clips]


CASES = (
    Case(name="a web video of 80 s, 1 frame/s, jpg", kind="web", times=8),
    Case(name="a camera's of 80 s, 1 frame/s, jpg", kind="cam", times=8),
    Case(name="the web video's keyframes, jpg", kind="web", times=8, frames="keyframes"),
    Case(name="8 web videos of 10 s, 1 frame/s, jpg", kind="web", videos=8),
    Case(name="a web video of 10 s, 3 frames/s, png", kind="web", rate=3, format="png"),
    Case(
        name="the same with one keyframe",
        kind="web",
        has_one_keyframe=True,
        rate=3,
        format="png",
    ),
)


def wanted(path: Path, frames: str, rate: int) -> list[int]:
    """Return the indices of the frames that are asked for, found by packets alone."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        base = stream.time_base or Fraction(1)
        shown = sorted(
            (packet.pts * base, packet.is_keyframe)
            for packet in container.demux(stream)
            if packet.pts is not None
        )
    if frames == "keyframes":
        return [index for index, (_, is_keyframe) in enumerate(shown) if is_keyframe]
    return at_rate([seconds - shown[0][0] for seconds, _ in shown], rate)


def at_rate(seconds: Sequence[Fraction], rate: int) -> list[int]:
    """Return the indices of the frames that are shown at each multiple of 1 / `rate` seconds."""
    moments = [Fraction(n, rate) for n in range(int(seconds[-1] * rate) + 1)]
    return sorted({bisect_right(seconds, moment) - 1 for moment in moments})
