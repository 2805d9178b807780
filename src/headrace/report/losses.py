"""What was damaged, as rows: neighbours that were lost for one cause are one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from headrace.profiling.input_records import LostFrame
from headrace.profiling.number_format import count, counted
from headrace.profiling.session import Session

_RANGES = 3
"""Ranges of frames that a row names one by one."""


@dataclass(frozen=True, kw_only=True)
class FrameLossRow:
    """One row."""

    what: str
    """`frame 7`, `frames 7 to 9, 50 of a.mp4`, `12 frames from 0 to 110`, `the whole video`."""
    at: str
    """When the first is shown; empty where the stream does not tell."""
    cause: str
    frames: int
    """How many it stands for."""


def lost_words(session: Session, lost: Sequence[LostFrame] | None = None) -> str:
    """`62 frames and 56 videos`: what was lost, by kind; of `lost` alone, where that is given."""
    lost = session.lost if lost is None else lost
    wholes = sum(each.index is None for each in lost)
    return counted_by_kind(len(lost) - wholes, wholes, _whole(session))


def counted_by_kind(frames: int, wholes: int, whole: str = "video") -> str:
    """`62 frames and 56 videos`, `1 video`, `0 frames`."""
    parts = [counted(frames, "frame")] if frames or not wholes else []
    return " and ".join([*parts, *([counted(wholes, whole)] if wholes else [])])


def lost_rows(session: Session, lost: Sequence[LostFrame] | None = None) -> list[FrameLossRow]:
    """Return the rows, in order; of `lost` alone, where that is given."""
    groups: list[list[LostFrame]] = []
    for frame in session.lost if lost is None else lost:
        if groups and _follows(groups[-1][-1], frame):
            groups[-1].append(frame)
        else:
            groups.append([frame])
    return [_row(group, session) for group in groups]


def _follows(before: LostFrame, frame: LostFrame) -> bool:
    if before.index is None or frame.index is None:
        return False
    return (frame.input, frame.cause) == (before.input, before.cause)


def _row(group: Sequence[LostFrame], session: Session) -> FrameLossRow:
    first = group[0]
    indexes = [frame.index for frame in group if frame.index is not None]
    what = _frames(indexes) if indexes else f"the whole {_whole(session)}"
    at = "" if first.pts_seconds is None else f"{first.pts_seconds:.3f} s"
    return FrameLossRow(
        what=f"{what}{_of(first, session)}",
        at=at,
        cause=first.cause,
        frames=len(group),
    )


def _frames(indexes: Sequence[int]) -> str:
    """Return which frames these are; of many ranges, how many there are and where."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][-1] + 1:
            ranges[-1].append(index)
        else:
            ranges.append([index])
    if len(ranges) > _RANGES:
        return f"{counted(len(indexes), 'frame')} from {count(indexes[0])} to {count(indexes[-1])}"
    spans = [
        count(found[0]) if len(found) == 1 else f"{count(found[0])} to {count(found[-1])}"
        for found in ranges
    ]
    return f"{'frame' if len(indexes) == 1 else 'frames'} {', '.join(spans)}"


def _of(frame: LostFrame, session: Session) -> str:
    """Return which video a loss is of, where that is not clear without it."""
    paths = [video.path for video in session.inputs] or [each.name for each in session.sources]
    if len(paths) < 2 or paths[frame.input] in frame.cause:
        return ""
    return f"{' ' if frame.index is None else ' of '}{PurePath(paths[frame.input]).name}"


def _whole(session: Session) -> str:
    """What is lost where a file is lost as a whole: a run of pictures records no inputs."""
    return "video" if session.inputs or session.sources else "picture"
