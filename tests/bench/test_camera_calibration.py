"""What is timed before a camera experiment: decoding, and workers that are really started."""

from dataclasses import dataclass, field

import pytest

from headrace.bench.camera_rank import CameraSubset, RankTask, RehearsalTask, rehearse
from headrace.decode.index_store import IndexStore
from headrace.runtime.clock import SystemClock
from headrace.training.cameras.alignment import Alignment
from training.cameras.clips import CAMERAS, SIZE, layout_of, write_layout


@dataclass
class CountedClock(SystemClock):
    """A second later each time it is asked."""

    asked: list[int] = field(default_factory=list)

    def now_ns(self) -> int:
        self.asked.append(len(self.asked) * 10**9)
        return self.asked[-1]


@pytest.fixture
def decoding(tmp_path):
    write_layout(tmp_path / "videos", {"a": 4})
    return RankTask(
        way="decode",
        part=CameraSubset(layout=layout_of(tmp_path / "videos"), alignment=Alignment()),
        rank=0,
        ranks=1,
        workers=1,
        group_num=1,
        size=SIZE,
        index_store=IndexStore(tmp_path / "store").folder,
    )


def test_decoding_and_the_start_of_each_number_of_workers_are_timed_apart(decoding):
    ready = []
    task = RehearsalTask(decoding=decoding, workers=(1, 2), clock=CountedClock())
    found = rehearse(task, lambda: ready.append(len(task.clock.asked)))
    assert ready == [0]
    assert found.delivered == 4 * len(CAMERAS)
    assert found.decode_seconds == 1.0
    assert found.worker_seconds == {1: 1.0, 2: 1.0}


def test_no_worker_is_started_that_no_way_has(decoding):
    task = RehearsalTask(decoding=decoding, workers=())
    assert rehearse(task, lambda: None).worker_seconds == {}
