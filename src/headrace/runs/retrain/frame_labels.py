"""Labels of a training: their file, the class of each frame, and which videos are held out."""

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.video.stream_index import StreamIndex
from headrace.video.video_table import PATH_COLUMNS, path_column, path_of, read_table

_LABEL: Final = ("label", "class")
_EXAMPLE: Final = (
    "the first line names the columns, path,label, and may add start_seconds,end_seconds"
)


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """One line: a video, or a part of it, and its class."""

    line: int
    """In the file, from 1."""
    path: Path
    """Of the video; a relative path begins where the file of labels lies."""
    label: str
    start_seconds: float
    """Presentation time from which on the label holds."""
    end_seconds: float
    """Presentation time before which it holds; infinite: to the end of the video."""


def read_labels(path: Path) -> tuple[LabelRow, ...]:
    """Return the lines of a CSV file of labels.

    path,label,start_seconds,end_seconds
    street.mp4,cars,0,12.5
    street.mp4,people,12.5,
    park.mp4,people,,

    The columns of seconds may be left out: the label is then that of the whole video. So may the
    first line: columns come in this order then. Lists are read as `video/video_table.py` says.

    Raises:
        ConfigError: it cannot be read, has no such columns, no line, or one that says nothing.
    """
    table = read_table(path, "file of labels")
    label = next((head for head in table.heads if head in _LABEL), None)
    if label is None or not any(head in PATH_COLUMNS for head in table.heads):
        found = ", ".join(map(str, table.heads))[:80] or "nothing"
        raise ConfigError(f"{path} has no columns path and label, but {found}; {_EXAMPLE}")
    column = path_column(table.heads, str(path))
    if not table.rows:
        raise ConfigError(f"{path} holds no label; {_EXAMPLE}, then one line for each video")
    return tuple(
        _row(row, table.lines[number], table.where(number), path.parent, column, label)
        for number, row in enumerate(table.rows)
    )


def _row(
    row: Mapping[str, object], line: int, where: str, folder: Path, column: str, label: str
) -> LabelRow:
    if not str(row.get(label) or "").strip():
        raise ConfigError(f"{where} has no label; {_EXAMPLE}")
    start = _seconds(row, "start_seconds", where, 0.0)
    end = _seconds(row, "end_seconds", where, math.inf)
    if end <= start:
        raise ConfigError(f"{where} ends at {end:g} s, which is not after its start at {start:g} s")
    return LabelRow(
        line=line,
        path=folder / path_of(row.get(column), where),
        label=str(row[label]).strip(),
        start_seconds=start,
        end_seconds=end,
    )


def _seconds(row: Mapping[str, object], column: str, where: str, default: float) -> float:
    text = "" if row.get(column) is None else str(row[column]).strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"{where} has {text!r} for {column}; it takes seconds, such as 12.5")
    return number


NO_CLASS: Final = -1
DUMMY_CLASSES: Final = 10
_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameLabels:
    """The classes, and which of them each frame belongs to."""

    classes: tuple[str, ...]
    """Their names, sorted."""
    of_frame: tuple[NDArray[np.int64], ...]
    """of_frame[v][k]: the class of frame k of video v; `NO_CLASS` where it has none."""
    is_dummy: bool = False
    """Whether they are drawn, and say nothing of the pictures."""

    def classes_of(self, video: int) -> frozenset[int]:
        """Return the classes that frames of a video belong to."""
        return frozenset(np.unique(self.of_frame[video]).tolist()) - {NO_CLASS}

    def frames_of(self, video: int, stride: int = 1) -> NDArray[np.int64]:
        """Return the indices of every `stride`-th frame of a video that has a class, ascending."""
        return np.flatnonzero(self.of_frame[video] != NO_CLASS)[::stride]


def labelled(videos: Sequence[StreamIndex], rows: Sequence[LabelRow], labels: Path) -> FrameLabels:
    """Return the examples that a file of labels makes of videos.

    Args:
        videos: That will be read.
        rows: Lines of the file.
        labels: The file, for messages.

    Raises:
        ConfigError: a video has no label, a label no video or no frame, frames have two classes,
            or there is one class only.
    """
    _check_videos(videos, rows, labels)
    classes = tuple(sorted({row.label for row in rows}))
    if len(classes) < 2:
        raise ConfigError(
            f"all labels in {labels} are {classes[0]!r}; there is nothing to tell apart: label "
            "videos of two classes or more"
        )
    places = {real_path(index.source.path): place for place, index in enumerate(videos)}
    of_frame = [np.full(len(index), NO_CLASS, np.int64) for index in videos]
    for row in rows:
        place = places[real_path(row.path)]
        _fill(of_frame[place], videos[place], row, classes, labels)
    return FrameLabels(classes=classes, of_frame=tuple(of_frame))


def dummies(videos: Sequence[StreamIndex], seed: int) -> FrameLabels:
    """Return examples whose classes are drawn from a seed, to time training without labels."""
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.DUMMY_LABEL)
    ends = np.cumsum([len(index) for index in videos])
    drawn = draws.integers(np.arange(ends[-1]), DUMMY_CLASSES)
    return FrameLabels(
        classes=tuple(f"dummy {k}" for k in range(DUMMY_CLASSES)),
        of_frame=tuple(np.split(drawn, ends[:-1])),
        is_dummy=True,
    )


def _check_videos(videos: Sequence[StreamIndex], rows: Sequence[LabelRow], labels: Path) -> None:
    given = {real_path(index.source.path): str(index.source) for index in videos}
    named = {real_path(row.path): str(row.path) for row in rows}
    without = [name for path, name in given.items() if path not in named]
    if without:
        raise ConfigError(
            f"{labels} has no label for {_listed(without)}; add a line for each, with its path as "
            f"seen from {labels.parent}, or leave the videos out"
        )
    unknown = [name for path, name in named.items() if path not in given]
    if unknown:
        missing = [name for name in unknown if not _is_there(name)]
        raise ConfigError(
            f"{labels} labels {_listed(missing or unknown)}, "
            f"{'not there' if missing else 'not among the videos given'}; "
            f"{'mend the path' if missing else 'give them too'}, or take the lines out"
        )


def _is_there(name: str) -> bool:
    with suppress(OSError):  # a name that no file can have
        return Path(name).is_file()
    return False


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def real_path(path: Path) -> str:
    """Return what two names of one file have in common."""
    return os.path.realpath(path)


def _fill(
    of_frame: NDArray[np.int64],
    index: StreamIndex,
    row: LabelRow,
    classes: tuple[str, ...],
    labels: Path,
) -> None:
    seconds = index.seconds_of(np.arange(len(index)))
    is_whole = row.start_seconds == 0 and row.end_seconds == np.inf
    inside = is_whole | (seconds >= row.start_seconds) & (seconds < row.end_seconds)
    number = classes.index(row.label)
    if not inside.any():
        raise ConfigError(
            f"line {row.line} of {labels} labels no frame: {index.source} has none from "
            f"{row.start_seconds:g} s to {row.end_seconds:g} s; its last is at {seconds[-1]:.3f} s"
        )
    before = np.unique(of_frame[inside])
    other = [classes[k] for k in before.tolist() if k not in (NO_CLASS, number)]
    if other:
        raise ConfigError(
            f"line {row.line} of {labels} labels frames of {index.source} {row.label!r} that an "
            f"earlier line labels {other[0]!r}; let the parts not overlap"
        )
    of_frame[inside] = number


def held_out(
    examples: FrameLabels, contents: Sequence[str], *, share: float, seed: int
) -> frozenset[int]:
    """Return the videos that are not trained on.

    Of each class `share` of its videos, at least one, and never its last one: that is trained on.

    Args:
        examples: The classes of each video's frames.
        contents: An id of each video's content; those with the same stay together.
        share: Of the videos, in [0, 1).
        seed: What they are drawn from.

    Returns:
        Their places; none where no class has a video to spare.
    """
    groups: dict[str, list[int]] = {}
    for video, content in enumerate(contents):
        groups.setdefault(content, []).append(video)
    members = list(groups.values())
    classes = [
        frozenset[int]().union(*(examples.classes_of(video) for video in each)) for each in members
    ]
    have = Counter(number for found in classes for number in found)
    wanted = {
        number: min(max(1, round(share * groups_of)), groups_of - 1) if share else 0
        for number, groups_of in have.items()
    }
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.HELD_OUT)
    taken: Counter[int] = Counter()
    found: set[int] = set()
    for group in Feistel(size=len(members), draws=draws).at(np.arange(len(members))).tolist():
        of_group = classes[group]
        is_wanted = any(taken[number] < wanted[number] for number in of_group)
        if is_wanted and all(taken[number] + 1 < have[number] for number in of_group):
            taken.update(of_group)
            found.update(members[group])
    return frozenset(found)
