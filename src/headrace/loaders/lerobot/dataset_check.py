"""check_dataset: problems of the rows and videos of a LeRobot dataset."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import MediaError
from headrace.loaders.lerobot.dataset_folder import (
    DatasetFolder,
    DatasetProblem,
    ProblemKind,
    positions_of,
)
from headrace.loaders.lerobot.episode_windows import frame_seconds, frames_of_episode
from headrace.units import check_numbers
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_UNKNOWN = -1


@dataclass(frozen=True, kw_only=True)
class DatasetCheck:
    """Dataset and its problems."""

    folder: DatasetFolder
    """The readable part of the dataset."""
    tolerance_seconds: float
    problems: tuple[DatasetProblem, ...]


def check_dataset(
    root: str | os.PathLike[str],
    tolerance: float = 1e-4,
    *,
    index_store: IndexStore | None = None,
    on_progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> DatasetCheck:
    """Return the problems of a dataset. Decodes nothing; a video scanned before is not read.

    Args:
        root: Folder of the dataset, or id of a repository in a local cache.
        tolerance: Upper bound of the difference between a frame's time and its row's, in seconds.
        index_store: Store of the indexes; None: the user's cache folder.
        on_progress: Called after each scanned video with its name, the number done, and the total.

    Raises:
        ConfigError: the folder is not a dataset, or its metadata cannot be read.
        BackendError: pyarrow is not installed.
    """
    check_numbers(0, tolerance=tolerance)
    problems = list[DatasetProblem]()
    folder = DatasetFolder.open(root, on_problem=problems.append)
    problems += _row_problems(folder, is_complete=not problems)
    open_one = scan_ahead(
        [Source(file) for camera in folder.cameras for file in camera.files],
        index_store or IndexStore(),
        raises=False,
        holds=False,
        on_scanned=on_progress,
    )
    problems += video_problems(folder, open_one, tolerance)
    return DatasetCheck(folder=folder, tolerance_seconds=tolerance, problems=tuple(problems))


def _row_problems(folder: DatasetFolder, *, is_complete: bool) -> Iterator[DatasetProblem]:
    """Yield wrong frame indices, and wrong totals if all rows could be read."""
    numbers = folder.numbers("frame_index")
    for episode in range(len(folder.episodes)):
        rows = folder.rows_of(episode)
        wrong = np.flatnonzero(numbers[rows] != np.arange(rows.stop - rows.start))
        for row in (wrong[:1] + rows.start).tolist():
            message = f" has frame_index {numbers[row]}, which does not count up from 0"
            yield folder.row_problem(row, message)
    for noun, count in (("episodes", len(folder.episodes)), ("frames", len(folder))):
        total = folder.info.get(f"total_{noun}", count)
        if is_complete and total != count:
            message = f"meta/info.json has {total} {noun}, and there are {count}"
            yield DatasetProblem("rows", message)


def video_problems(
    folder: DatasetFolder, open_one: OpenIndex, tolerance: float
) -> Iterator[DatasetProblem]:
    """Yield the problems of all videos of a dataset, camera by camera and file by file.

    Args:
        folder: The dataset.
        open_one: Returns the index of a file, or raises its error.
        tolerance: Upper bound of the difference between a frame's time and its row's, in seconds.
    """
    counts = np.full((len(folder.cameras), len(folder.episodes)), _UNKNOWN, np.int64)
    for position, camera in enumerate(folder.cameras):
        for file, episodes in positions_of(camera.files).items():
            try:
                index = open_one(Source(file))
            except MediaError as error:
                yield DatasetProblem.of_file(file, error, folder.episodes[episodes])
                continue
            numbers = tuple(folder.episodes[episodes].tolist())
            for fault in _index_problems(index):
                yield DatasetProblem("damage", f"{file}: {fault}", numbers, file)
            frame_times = frame_seconds(index)
            for episode, number in zip(episodes, numbers, strict=True):
                frames, _, distance = frames_of_episode(folder, camera, episode, frame_times)
                counts[position, episode] = len(frames)
                for kind, message in _episode_problems(
                    camera.key, index, frames, distance, tolerance
                ):
                    yield DatasetProblem(kind, f"{message}, in {file}", (number,), file)
    is_unequal = (counts >= np.diff(folder.row_start)).all(0) & (counts != counts[:1]).any(0)
    for episode in np.flatnonzero(is_unequal).tolist():
        pairs = zip(folder.cameras, counts[:, episode].tolist(), strict=True)
        of_cameras = ", ".join(f"{camera.key} {count}" for camera, count in pairs)
        message = f"cameras have different numbers of frames: {of_cameras}"
        yield DatasetProblem("unequal", message, (int(folder.episodes[episode]),))


def _index_problems(index: StreamIndex) -> Iterator[str]:
    """Yield the problems that the index of a file reports."""
    yield from index.problems
    if not index.is_seekable:
        yield "decoding can start only at its first frame, so that each frame needs all before it"


def _episode_problems(
    camera: str,
    index: StreamIndex,
    frames: range,
    distance: NDArray[np.float64],
    tolerance: float,
) -> Iterator[tuple[ProblemKind, str]]:
    """Yield kind and message of each problem with the `frames` of one episode."""
    rows, distance_of_frames = len(distance), distance[: len(frames)]
    if len(frames) < rows:
        yield "short", f"{camera} has {len(frames)} frames for {rows} rows"
    is_off = ~(distance_of_frames < tolerance)
    if is_off.any():
        yield (
            "off",
            f"{is_off.sum()} of {rows} rows are up to {distance_of_frames.max():.6g} s off the "
            f"frames of {camera}, the first of them frame {is_off.argmax()}",
        )
    if frames and not index.is_keyframe[frames.start]:
        before = frames.start - int(index.gop_start[index.gop_of(frames.start)])
        yield "keyframe", f"{camera} starts {before} frames after the keyframe it is decoded from"
