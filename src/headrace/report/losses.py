"""What was damaged, as rows: frames that follow each other and were lost for one cause are one."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.profiling.inputs import LostFrame
from headrace.report.numbers import count


@dataclass(frozen=True, kw_only=True)
class LostRow:
    """One row."""

    what: str
    """`frame 7`, `frames 7 to 9`, `the whole video`."""
    at: str
    """When the first is shown; empty where the stream does not tell."""
    cause: str
    frames: int
    """How many it stands for."""
    input: int
    """Place of their video among the inputs."""
    is_video: bool
    """A whole video, which is not among the inputs if it could not be opened."""


def lost_rows(lost: Sequence[LostFrame]) -> list[LostRow]:
    """Return the rows, in order."""
    groups: list[list[LostFrame]] = []
    for frame in lost:
        if groups and _follows(groups[-1][-1], frame):
            groups[-1].append(frame)
        else:
            groups.append([frame])
    return [_row(group) for group in groups]


def _follows(before: LostFrame, frame: LostFrame) -> bool:
    if before.index is None or frame.index != before.index + 1:
        return False
    return (frame.input, frame.cause) == (before.input, before.cause)


def _row(group: Sequence[LostFrame]) -> LostRow:
    first, last = group[0], group[-1]
    if first.index is None or last.index is None:
        what = "the whole video"
    elif len(group) == 1:
        what = f"frame {count(first.index)}"
    else:
        what = f"frames {count(first.index)} to {count(last.index)}"
    at = "" if first.pts_seconds is None else f"{first.pts_seconds:.3f} s"
    return LostRow(
        what=what,
        at=at,
        cause=first.cause,
        frames=len(group),
        input=first.input,
        is_video=first.index is None,
    )
