"""Labels of a training: label file, class of each frame, held-out videos."""

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
from headrace.video.find_videos import PATH_COLUMNS, path_column, path_of, read_table
from headrace.video.stream_index import StreamIndex

_LABEL_COLUMNS: Final = ("label", "class")
_EXAMPLE: Final = (
    "the first line names the columns: path,label and optionally start_seconds,end_seconds"
)


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """Line of a label file: a video, or a part of it, and its class."""

    line: int
    """1-based line number in the file."""
    path: Path
    """Path of the video; a relative path starts at the folder of the label file."""
    label: str
    start_seconds: float
    """Start of the label, in presentation time."""
    end_seconds: float
    """End of the label, exclusive; infinite: the end of the video."""


def read_labels(path: Path) -> tuple[LabelRow, ...]:
    """Return the lines of a CSV label file.

    path,label,start_seconds,end_seconds
    street.mp4,cars,0,12.5
    street.mp4,people,12.5,
    park.mp4,people,,

    The columns of seconds are optional: without them, a label is for the whole video. So is the
    header: without it, the columns have this order. See `video/find_videos.py` for the format.

    Raises:
        ConfigError: the file cannot be read, has no line, or lacks a column; a line lacks a label.
    """
    table = read_table(path, "file of labels")
    label = next((header for header in table.heads if header in _LABEL_COLUMNS), None)
    if label is None or not any(header in PATH_COLUMNS for header in table.heads):
        columns = ", ".join(map(str, table.heads))[:80] or "no columns"
        raise ConfigError(f"{path} needs the columns path and label, got {columns}; {_EXAMPLE}")
    column = path_column(table.heads, str(path))
    if not table.rows:
        raise ConfigError(f"{path} has no labels; {_EXAMPLE}; add one line per video")
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
        raise ConfigError(
            f"{where}: {column} must be a number of seconds, such as 12.5, got {text!r}"
        )
    return number


NO_CLASS: Final = -1
"""Class number of unlabelled frames."""
DUMMY_CLASSES: Final = 10
"""Number of classes of dummy labels."""
_MAX_NAMES: Final = 3
"""Max videos named in an error."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameLabels:
    """Classes, and the class of each frame."""

    classes: tuple[str, ...]
    """Class names, sorted."""
    of_frame: tuple[NDArray[np.int64], ...]
    """of_frame[v][k]: int64 class number of frame k of video v, or `NO_CLASS`."""
    is_dummy: bool = False
    """Whether the classes are random."""

    def classes_of(self, video: int) -> frozenset[int]:
        """Return the classes of a video's frames."""
        return frozenset(np.unique(self.of_frame[video]).tolist()) - {NO_CLASS}

    def frames_of(self, video: int, stride: int = 1) -> NDArray[np.int64]:
        """Return the indices of every `stride`-th labelled frame of a video, int64, ascending."""
        return np.flatnonzero(self.of_frame[video] != NO_CLASS)[::stride]


def label_frames(
    videos: Sequence[StreamIndex], rows: Sequence[LabelRow], labels: Path
) -> FrameLabels:
    """Return the labels of the frames of videos, from the lines of a label file.

    Args:
        videos: Videos of the training.
        rows: Lines of the file.
        labels: Path of the file, for messages.

    Raises:
        ConfigError: a video has no label; a label has no video or no frame; a frame has two
            classes; there is only one class.
    """
    _check_videos(videos, rows, labels)
    classes = tuple(sorted({row.label for row in rows}))
    if len(classes) < 2:
        raise ConfigError(
            f"all labels in {labels} are {classes[0]!r}; label videos of two or more classes"
        )
    positions = {real_path(index.source.path): k for k, index in enumerate(videos)}
    of_frame = [np.full(len(index), NO_CLASS, np.int64) for index in videos]
    for row in rows:
        video = positions[real_path(row.path)]
        _fill(of_frame[video], videos[video], row, classes, labels)
    return FrameLabels(classes=classes, of_frame=tuple(of_frame))


def dummy_labels(videos: Sequence[StreamIndex], seed: int) -> FrameLabels:
    """Return random labels from a seed, to time a training without labels."""
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.DUMMY_LABEL)
    ends = np.cumsum([len(index) for index in videos])
    classes = draws.integers(np.arange(ends[-1]), DUMMY_CLASSES)
    return FrameLabels(
        classes=tuple(f"dummy {k}" for k in range(DUMMY_CLASSES)),
        of_frame=tuple(np.split(classes, ends[:-1])),
        is_dummy=True,
    )


def _check_videos(videos: Sequence[StreamIndex], rows: Sequence[LabelRow], labels: Path) -> None:
    videos_by_path = {real_path(index.source.path): str(index.source) for index in videos}
    labels_by_path = {real_path(row.path): str(row.path) for row in rows}
    unlabelled = [name for path, name in videos_by_path.items() if path not in labels_by_path]
    if unlabelled:
        raise ConfigError(
            f"{labels} has no label for {_shorten(unlabelled)}; add a line for each, with its path "
            f"relative to {labels.parent}, or leave the videos out"
        )
    unknown = [name for path, name in labels_by_path.items() if path not in videos_by_path]
    if unknown:
        missing = [name for name in unknown if not _is_file(name)]
        problem, fix = "are not videos of this run", "give them as sources"
        if missing:
            problem, fix = "do not exist", "correct the paths"
        raise ConfigError(
            f"{labels} has labels for files that {problem}: {_shorten(missing or unknown)}; {fix}, "
            "or remove the lines"
        )


def _is_file(name: str) -> bool:
    with suppress(OSError):  # not a valid file name
        return Path(name).is_file()
    return False


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def real_path(path: Path) -> str:
    """Return the canonical path of a file, equal for all of its paths."""
    return os.path.realpath(path)


def _fill(
    of_frame: NDArray[np.int64],
    index: StreamIndex,
    row: LabelRow,
    classes: tuple[str, ...],
    labels: Path,
) -> None:
    seconds = index.seconds_of(np.arange(len(index)))
    is_complete = row.start_seconds == 0 and row.end_seconds == np.inf
    inside = is_complete | (seconds >= row.start_seconds) & (seconds < row.end_seconds)
    number = classes.index(row.label)
    if not inside.any():
        raise ConfigError(
            f"line {row.line} of {labels} labels no frame: {index.source} has no frame from "
            f"{row.start_seconds:g} s to {row.end_seconds:g} s; its last one is at "
            f"{seconds[-1]:.3f} s"
        )
    earlier = np.unique(of_frame[inside])
    conflicts = [classes[k] for k in earlier.tolist() if k not in (NO_CLASS, number)]
    if conflicts:
        raise ConfigError(
            f"line {row.line} of {labels} labels frames of {index.source} {row.label!r} that an "
            f"earlier line labels {conflicts[0]!r}; give parts that do not overlap"
        )
    of_frame[inside] = number


def held_out(
    labels: FrameLabels, contents: Sequence[str], *, share: float, seed: int
) -> frozenset[int]:
    """Return the positions of the held-out videos.

    Each class holds out `share` of its videos, at least one, and keeps at least one for training.

    Args:
        labels: Labels of the videos.
        contents: Content id of each video; equal contents stay on one side of the split.
        share: Share of the videos, in [0, 1).
        seed: Seed of the selection.

    Returns:
        Positions; empty: every class has a single video.
    """
    groups: dict[str, list[int]] = {}
    for video, content in enumerate(contents):
        groups.setdefault(content, []).append(video)
    members = list(groups.values())
    classes = [
        frozenset[int]().union(*(labels.classes_of(video) for video in videos))
        for videos in members
    ]
    available = Counter(label for group in classes for label in group)
    targets = {
        label: min(max(1, round(share * count)), count - 1) if share else 0
        for label, count in available.items()
    }
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.HELD_OUT)
    counts: Counter[int] = Counter()
    selected: set[int] = set()
    for group in Feistel(size=len(members), draws=draws).at(np.arange(len(members))).tolist():
        is_needed = any(counts[label] < targets[label] for label in classes[group])
        if is_needed and all(counts[label] + 1 < available[label] for label in classes[group]):
            counts.update(classes[group])
            selected.update(members[group])
    return frozenset(selected)
