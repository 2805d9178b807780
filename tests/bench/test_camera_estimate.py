"""How long turns of a camera experiment take, from a short one."""

import pytest

from headrace.bench.camera_estimate import CameraEstimate, started_workers

PACE = CameraEstimate(
    start_seconds=2.0,
    worker_seconds={1: 0.5, 2: 0.75, 3: 3.0},
    picture_seconds=0.01,
    cores=2,
    gop=3.0,
)


@pytest.mark.parametrize(
    ("turn", "seconds"),
    [
        (("decode", 1, 1), 2 + 1),
        (("decode", 1, 2), 2 + 0.5),
        (("decode", 2, 1), 2 + 0.5),
        (("loader", 4, 2), 2 * 2 + 0.5),
        (("dataset", 1, 2), 2 + 0.75 + 0.5 * 1.5),
        (("wandering", 1, 2), 2 + 0.75 + 0.5 * 1.5 * 2),
        (("wandering", 2, 2), 2 + 0.75 * 2 + 0.5 * 1.5 * 3),
        (("dataset", 2, 1), 2 + 0.5 + 0.5 * 1.5),
        (("dataset", 2, 3), 2 + 3.0 * 2 + 0.5 * 1.5),
    ],
)
def test_a_turn_takes_its_start_that_of_its_workers_and_its_share_of_the_cores(turn, seconds):
    """Where slots wander, as many are decoded for one as read by turns, a GOP at most."""
    assert PACE.seconds([turn], 100) == pytest.approx(seconds)


def test_workers_are_started_where_a_dataloader_has_them():
    ways = [("decode", 1, 1), ("loader", 2, 3), ("wandering", 1, 4), ("dataset", 2, 2)]
    assert started_workers(ways) == (2, 4)


def test_as_many_pictures_fit_as_take_that_long():
    turns = [("decode", 1, 1), ("wandering", 2, 2), ("dataset", 1, 1)]
    pictures = PACE.pictures(turns, 60.0)
    assert PACE.seconds(turns, pictures) <= 60 < PACE.seconds(turns, pictures + 1)


def test_none_fit_where_starting_takes_longer():
    assert PACE.pictures([("decode", 1, 1)], 1.0) == 0
