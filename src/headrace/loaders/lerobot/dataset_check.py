"""check_dataset: all that is wrong with the rows and videos of a LeRobot dataset."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import MediaError
from headrace.loaders.lerobot.dataset_folder import DatasetFolder, DatasetProblem, ProblemKind
from headrace.loaders.lerobot.dataset_layout import Camera
from headrace.loaders.lerobot.episode_windows import EpisodeFrames, shown_seconds
from headrace.units import check_numbers
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_UNKNOWN = -1


@dataclass(frozen=True, kw_only=True)
class DatasetCheck:
    """A dataset and its problems."""

    folder: DatasetFolder
    """All of it that can be read."""
    tolerance_seconds: float
    problems: tuple[DatasetProblem, ...]


def check_dataset(
    root: str | os.PathLike[str],
    tolerance: float = 1e-4,
    *,
    index_store: IndexStore | None = None,
    on_progress: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> DatasetCheck:
    """Return the problems of a dataset. Decodes nothing; a video scanned before is not read.

    Args:
        root: Its folder, or the id of a repository in a local cache.
        tolerance: Seconds below which a frame's time must be off that of its row.
        index_store: Where indexes are kept; None means the user's cache folder.
        on_progress: Called with what is done, its number, and the total.

    Raises:
        ConfigError: it is no dataset, or its metadata cannot be read.
        BackendError: pyarrow is not installed.
    """
    check_numbers(0, tolerance=tolerance)
    problems = list[DatasetProblem]()
    folder = DatasetFolder.open(root, on_problem=problems.append)
    problems += _row_problems(folder, is_whole=not problems)
    open_one = scan_ahead(
        [Source(file) for camera in folder.cameras for file in camera.files],
        index_store or IndexStore(),
        raises=False,
        holds=False,
        on_scanned=on_progress,
    )
    problems += video_problems(folder, open_one, tolerance)
    return DatasetCheck(folder=folder, tolerance_seconds=tolerance, problems=tuple(problems))


def _row_problems(folder: DatasetFolder, *, is_whole: bool) -> Iterator[DatasetProblem]:
    """Yield where rows contradict each other, and, of a whole dataset, the totals."""
    starts = folder.row_start[:-1].repeat(np.diff(folder.row_start))
    is_wrong = folder.numbers("frame_index") != np.arange(len(folder)) - starts
    _, rows = np.unique(starts[is_wrong], return_index=True)
    for row in np.flatnonzero(is_wrong)[rows].tolist():
        yield DatasetProblem(
            kind="rows",
            message=f"{folder.name(row)} has frame_index {folder.numbers('frame_index')[row]}, "
            "which does not count up from 0",
            episodes=(_number(folder, folder.episode_of(row)),),
        )
    totals = {"episodes": len(folder.episodes), "frames": len(folder)}
    for noun, found in totals.items():
        total = folder.info.get(f"total_{noun}", found)
        if is_whole and total != found:
            yield DatasetProblem(
                kind="rows", message=f"meta/info.json has {total} {noun}, and there are {found}"
            )


def video_problems(
    folder: DatasetFolder, open_one: OpenIndex, tolerance: float
) -> Iterator[DatasetProblem]:
    """Yield the problems of all videos of a dataset, camera by camera and file by file.

    Args:
        folder: The dataset.
        open_one: Returns the index of a file, or raises its error.
        tolerance: Seconds below which a frame's time must be off that of its row.
    """
    frames = np.full((len(folder.cameras), len(folder.episodes)), _UNKNOWN, np.int64)
    for position, camera in enumerate(folder.cameras):
        episodes_of = defaultdict[Path, list[int]](list)
        for episode, file in enumerate(camera.files):
            episodes_of[file].append(episode)
        for file, episodes in episodes_of.items():
            numbers = tuple(_number(folder, episode) for episode in episodes)
            try:
                index = open_one(Source(file))
            except MediaError as error:
                yield DatasetProblem(
                    kind="unreadable" if file.exists() else "missing",
                    message=str(error),
                    episodes=numbers,
                    file=file,
                )
                continue
            for fault in _faults(index):
                yield DatasetProblem(
                    kind="damage", message=f"{file}: {fault}", episodes=numbers, file=file
                )
            shown = shown_seconds(index)
            for episode in episodes:
                own = EpisodeFrames.of(folder, camera, episode, shown)
                frames[position, episode] = own.stop - own.first
                yield from _episode_problems(folder, camera, episode, index, own, tolerance)
    yield from _unequal(folder, frames)


def _faults(index: StreamIndex) -> Iterator[str]:
    """Yield what the index of a file reports of it."""
    yield from index.problems
    if not index.is_seekable:
        yield "decoding can start only at its first frame, so that each frame needs all before it"


def _episode_problems(
    folder: DatasetFolder,
    camera: Camera,
    episode: int,
    index: StreamIndex,
    own: EpisodeFrames,
    tolerance: float,
) -> Iterator[DatasetProblem]:
    """Yield the problems of the frames of one episode."""
    rows, frames, file = len(own.index), own.stop - own.first, camera.files[episode]
    number = _number(folder, episode)

    def problem(kind: ProblemKind, message: str) -> DatasetProblem:
        return DatasetProblem(kind=kind, message=message, episodes=(number,), file=file)

    if frames < rows:
        yield problem("short", f"{camera.key} has {frames} frames for {rows} rows, in {file}")
    is_off = ~(own.distance[: min(frames, rows)] < tolerance)
    if is_off.any():
        yield problem(
            "off",
            f"{is_off.sum()} of {rows} rows are up to {own.distance[: len(is_off)].max():.6g} s "
            f"off the frames of {camera.key}, the first of them frame {is_off.argmax()}, in {file}",
        )
    if frames and not index.is_keyframe[own.first]:
        keyframe = own.first - int(index.gop_start[index.gop_of(own.first)])
        yield problem(
            "keyframe",
            f"{camera.key} starts {keyframe} frames after a keyframe, from which it is decoded, "
            f"in {file}",
        )


def _unequal(folder: DatasetFolder, frames: NDArray[np.int64]) -> Iterator[DatasetProblem]:
    """Yield the episodes that have enough frames, but of one camera more than of another.

    Args:
        folder: The dataset.
        frames: [cameras, episodes]: frames of each, or unknown.
    """
    rows = np.diff(folder.row_start)
    is_unequal = (frames >= rows).all(0) & (frames != frames[:1]).any(0)
    for episode in np.flatnonzero(is_unequal).tolist():
        counts = ", ".join(
            f"{camera.key} {count}"
            for camera, count in zip(folder.cameras, frames[:, episode].tolist(), strict=True)
        )
        yield DatasetProblem(
            kind="unequal",
            message=f"cameras have different numbers of frames: {counts}",
            episodes=(_number(folder, episode),),
        )


def _number(folder: DatasetFolder, episode: int) -> int:
    return int(folder.episodes[episode])
