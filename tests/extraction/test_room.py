"""The memory budget of a reader, shared out over its threads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.extraction.room import ReadingRoom
from headrace.runtime.affinity import available_cores

SMALL, HD = (64, 96), (1080, 1920)


@given(
    side=st.integers(8, 4000),
    batch_size=st.none() | st.integers(1, 300),
    workers=st.none() | st.integers(1, 64),
    budget=st.integers(1, 1 << 31),
)
def test_what_may_wait_stays_inside_the_budget(side, batch_size, workers, budget):
    try:
        room = ReadingRoom.of((side, side), batch_size=batch_size, workers=workers, budget=budget)
    except ConfigError:
        return
    assert room.job_frames >= 1
    assert batch_size is None or room.job_frames <= batch_size
    assert room.workers == workers or workers is None
    waiting = room.jobs * (room.workers + 1) * room.job_frames
    assert room.jobs >= 1
    assert waiting * side * side * 3 <= budget


def test_there_is_a_worker_for_each_core_as_far_as_the_budget_holds():
    room = ReadingRoom.of(SMALL, batch_size=None, workers=None, budget=1 << 30)
    assert room.workers == len(available_cores())
    frame_bytes = 1080 * 1920 * 3
    room = ReadingRoom.of(HD, batch_size=1, workers=None, budget=2 * frame_bytes)
    assert (room.workers, room.job_frames, room.jobs) == (1, 1, 1)


def test_many_workers_share_a_budget_that_holds_no_batch_for_each():
    room = ReadingRoom.of(HD, batch_size=16, workers=64, budget=1 << 30)
    assert (room.job_frames, room.jobs) == (1, 2)


def test_a_budget_that_does_not_hold_a_batch_is_refused():
    with pytest.raises(
        ConfigError, match="1000000 bytes does not hold a batch of 100 frames of 64x96, 1843200 by"
    ):
        ReadingRoom.of(SMALL, batch_size=100, workers=1, budget=1_000_000)
