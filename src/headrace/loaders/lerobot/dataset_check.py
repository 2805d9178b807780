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
    numbers = folder.numbers("frame_index")
    is_wrong = numbers != np.arange(len(folder)) - starts
    _, firsts = np.unique(starts[is_wrong], return_index=True)
    for row in np.flatnonzero(is_wrong)[firsts].tolist():
        message = (
            f"{folder.name(row)} has frame_index {numbers[row]}, which does not count up from 0"
        )
        yield DatasetProblem("rows", message, (folder.number_of(row),))
    for noun, found in (("episodes", len(folder.episodes)), ("frames", len(folder))):
        total = folder.info.get(f"total_{noun}", found)
        if is_whole and total != found:
            message = f"meta/info.json has {total} {noun}, and there are {found}"
            yield DatasetProblem("rows", message)


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
            numbers = tuple(folder.episodes[episodes].tolist())
            try:
                index = open_one(Source(file))
            except MediaError as error:
                kind: ProblemKind = "unreadable" if file.exists() else "missing"
                yield DatasetProblem(kind, str(error), numbers, file)
                continue
            for fault in _faults(index):
                yield DatasetProblem("damage", f"{file}: {fault}", numbers, file)
            shown = shown_seconds(index)
            for episode in episodes:
                own = EpisodeFrames.of(folder, camera, episode, shown)
                frames[position, episode] = own.stop - own.first
                number = (int(folder.episodes[episode]),)
                for kind, message in _of_episode(camera.key, index, own, tolerance):
                    yield DatasetProblem(kind, f"{message}, in {file}", number, file)
    yield from _unequal(folder, frames)


def _faults(index: StreamIndex) -> Iterator[str]:
    """Yield what the index of a file reports of it."""
    yield from index.problems
    if not index.is_seekable:
        yield "decoding can start only at its first frame, so that each frame needs all before it"


def _of_episode(
    camera: str, index: StreamIndex, own: EpisodeFrames, tolerance: float
) -> Iterator[tuple[ProblemKind, str]]:
    """Yield kind and message of each problem of the frames of one episode."""
    rows, frames = len(own.index), own.stop - own.first
    if frames < rows:
        yield "short", f"{camera} has {frames} frames for {rows} rows"
    is_off = ~(own.distance[: min(frames, rows)] < tolerance)
    if is_off.any():
        most = own.distance[: len(is_off)].max()
        yield (
            "off",
            f"{is_off.sum()} of {rows} rows are up to {most:.6g} s off the frames of {camera}, the "
            f"first of them frame {is_off.argmax()}",
        )
    if frames and not index.is_keyframe[own.first]:
        before = own.first - int(index.gop_start[index.gop_of(own.first)])
        yield "keyframe", f"{camera} starts {before} frames after the keyframe it is decoded from"


def _unequal(folder: DatasetFolder, frames: NDArray[np.int64]) -> Iterator[DatasetProblem]:
    """Yield the episodes that have enough frames, but of one camera more than of another.

    Args:
        folder: The dataset.
        frames: int64 [cameras, episodes]: frames of each, or unknown.
    """
    is_unequal = (frames >= np.diff(folder.row_start)).all(0) & (frames != frames[:1]).any(0)
    for episode in np.flatnonzero(is_unequal).tolist():
        pairs = zip(folder.cameras, frames[:, episode].tolist(), strict=True)
        counts = ", ".join(f"{camera.key} {count}" for camera, count in pairs)
        message = f"cameras have different numbers of frames: {counts}"
        yield DatasetProblem("unequal", message, (int(folder.episodes[episode]),))
