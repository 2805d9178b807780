"""Tables of a report: damaged frames and lost videos, events, workers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from headrace.profiling.findings.utilization import flow_seconds
from headrace.profiling.input_records import LostFrame
from headrace.profiling.number_format import count, counted, percent, short_names
from headrace.profiling.session import Session

WORKER_HEADERS: Final = ("worker", "steps", "frames", "frames/s", "busy", "queue")
_MAX_RANGES = 3
"""Max ranges of frames in a row."""


@dataclass(frozen=True, kw_only=True)
class FrameLossRow:
    """One row of the table of damaged frames."""

    what: str
    """`frame 7`, `frames 7 to 9, 50 of a.mp4`, `12 frames from 0 to 110`, `the whole video`."""
    at: str
    """Time of the first loss; empty if the stream has no times."""
    cause: str
    frames: int
    """Number of losses in the row."""


def lost_words(session: Session, lost: Sequence[LostFrame] | None = None) -> str:
    """`62 frames and 56 videos`: number of losses of a session, or in `lost`, by kind."""
    lost = session.lost if lost is None else lost
    files = sum(loss.index is None for loss in lost)
    return counted_by_kind(len(lost) - files, files, _file_word(session))


def counted_by_kind(frames: int, files: int, file_word: str = "video") -> str:
    """`62 frames and 56 videos`, `1 video`, `0 frames`."""
    parts = [counted(frames, "frame")] if frames or not files else []
    return " and ".join([*parts, *([counted(files, file_word)] if files else [])])


def lost_rows(session: Session, lost: Sequence[LostFrame] | None = None) -> list[FrameLossRow]:
    """Return the rows of a session, or of `lost`, in the order of output."""
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
    what = _list_frames(indexes) if indexes else f"the whole {_file_word(session)}"
    at = "" if first.pts_seconds is None else f"{first.pts_seconds:.3f} s"
    return FrameLossRow(
        what=f"{what}{_name_file(first, session)}",
        at=at,
        cause=first.cause,
        frames=len(group),
    )


def _list_frames(indexes: Sequence[int]) -> str:
    """Return the ranges of frames as text; if there are many, the count, first and last frame."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][-1] + 1:
            ranges[-1].append(index)
        else:
            ranges.append([index])
    if len(ranges) > _MAX_RANGES:
        return f"{counted(len(indexes), 'frame')} from {count(indexes[0])} to {count(indexes[-1])}"
    spans = [
        count(run[0]) if len(run) == 1 else f"{count(run[0])} to {count(run[-1])}" for run in ranges
    ]
    return f"{'frame' if len(indexes) == 1 else 'frames'} {', '.join(spans)}"


def _name_file(frame: LostFrame, session: Session) -> str:
    """Return the file name of a loss; empty if the session has one file, or the cause names it."""
    paths = [video.path for video in session.inputs] or [source.name for source in session.sources]
    if len(paths) < 2 or paths[frame.input] in frame.cause:
        return ""
    return f"{' ' if frame.index is None else ' of '}{PurePath(paths[frame.input]).name}"


def _file_word(session: Session) -> str:
    """Return the word for an input: a run on pictures records no inputs."""
    return "video" if session.inputs or session.sources else "picture"


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """One row of the timeline of events."""

    at: str
    """Time since the start of the run: `3.2 s`."""
    what: str
    """Kind of the event: `joined`, `dropped`."""
    where: str
    """Short name of the source; empty: none."""
    words: str
    """Description, with the number of lost frames; empty: it equals `what`."""


def timeline(session: Session) -> Iterator[TimelineRow]:
    """Yield the events of a session, in order."""
    names = short_names([source.name for source in session.sources])
    for event in session.events:
        # The words of an overload have the number.
        has_number = not event.frames or event.kind in ("overloaded", "recovered")
        frames = "" if has_number else f"{counted(event.frames, 'frame')}: "
        yield TimelineRow(
            at=f"{event.at_seconds:.1f} s",
            what=event.kind,
            where="" if event.source is None else names[event.source],
            words=frames + ("" if event.words == event.kind else event.words),
        )


def worker_rows(session: Session) -> list[tuple[str, ...]]:
    """Return a row for each worker, under `WORKER_HEADERS`."""
    flow = flow_seconds(session)
    return [
        (
            worker.name,
            f"{worker.steps:,}",
            f"{worker.frames:,}",
            f"{worker.throughput:.1f}",
            percent(min(1.0, worker.busy_seconds / flow)) if flow else "",
            f"{worker.queue_seconds:.1f} s",
        )
        for worker in session.workers
    ]
