"""Tests of benchmarks/random_access/way.py: a batch asks each file once, and loses no order."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from benchmarks.random_access.way import GroupedByFile, Task
from headrace.sampling.frames import Uniform

REQUESTS = np.array([[1, 9], [0, 4], [1, 2], [1, 9], [0, 4], [2, 0]])
TASK = Task(
    paths=[Path(f"{number}.mp4") for number in range(3)],
    size=(2, 2),
    workers=2,
    batch_size=len(REQUESTS),
    sampling=Uniform(),
    requests=lambda: iter([REQUESTS, REQUESTS[::-1]]),
)


class Files:
    """Frames that carry their video and index, and what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[int]]] = []
        self._lock = Lock()

    def __call__(self, video: int, indices: Sequence[int]) -> list[NDArray[np.uint8]]:
        with self._lock:
            self.asked.append((video, list(indices)))
        return [np.full((2, 2, 3), 10 * video + index, np.uint8) for index in indices]


def test_frames_come_in_the_order_of_the_requests() -> None:
    batches = [batch[:, 0, 0, 0].tolist() for batch in GroupedByFile(TASK, Files())]
    wanted = (10 * REQUESTS[:, 0] + REQUESTS[:, 1]).tolist()
    assert batches == [wanted, wanted[::-1]]


def test_each_file_is_asked_once_a_batch_for_ascending_different_frames() -> None:
    files = Files()
    next(iter(GroupedByFile(replace(TASK, workers=1), files)))
    assert sorted(files.asked) == [(0, [4]), (1, [2, 9]), (2, [0])]


def test_no_batch_is_decoded_before_it_is_asked_for() -> None:
    files = Files()
    list(islice(GroupedByFile(TASK, files), 1))
    assert len(files.asked) == 3
