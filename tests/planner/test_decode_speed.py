"""Decode costs are measured on the files, good and bad."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.clocks import OpeningTakesTenSeconds
from headrace.errors import DecodeError
from headrace.planner.decode_speed import measure_speed
from headrace.sampling.decode_cost import share_out
from headrace.testing import damage


def test_every_constant_is_measured(opened, copies):
    measured = measure_speed(opened(*copies()), (32, 32), workers=2)
    assert measured.gops == 8
    # The first frame twice, all frames of a GOP twice, and frames in flight.
    assert 8 * (1 + 1 + 12 + 12) <= measured.frames < 8 * 4 * 12
    speed = measured.speed
    assert speed.workers == 2
    assert min(speed.seconds_per_seek, speed.seconds_per_decoded) >= 0
    assert speed.seconds_per_collated > 0
    assert speed.droppable_share == 0


def test_disposable_frames_are_counted(opened, copies):
    videos = opened(*copies(1, b_frames=2))
    share = videos.indexes[0].is_disposable.mean()
    assert share > 0.3
    measured = measure_speed(videos, (32, 32), workers=1)
    assert measured.speed.droppable_share == pytest.approx(share)


def test_damaged_gops_are_skipped_and_without_any_good_one_it_fails(opened, copies, tmp_path):
    [good] = copies(1)
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[0])
    assert measure_speed(opened(bad), (32, 32), workers=1).gops == 3
    bad = damage.damage_packets(good, tmp_path / "worse.mp4", ordinals=range(48))
    with pytest.raises(DecodeError, match="cannot be decoded"):
        measure_speed(opened(bad), (32, 32), workers=1)


COUNTS = np.array([(1, 1, 1, 1), (0, 1, 1, 1), (0, 1, 30, 1), (0, 1, 30, 30)] * 5, np.float64)


def test_times_are_split_by_cause_and_one_outlier_hardly_changes_them():
    shares = [0.004, 0.003, 0.002, 0.001]
    seconds = COUNTS @ shares
    assert share_out(COUNTS, seconds) == pytest.approx(shares)
    seconds[2] += 5
    assert share_out(COUNTS, seconds)[2] == pytest.approx(0.002, rel=0.2)
    counts = COUNTS * [0, 1, 1, 1]  # an event that never occurs costs no time
    assert share_out(counts, counts @ shares)[0] == 0


@given(seconds=st.lists(st.floats(1e-4, 10), min_size=20, max_size=20))
def test_costs_are_never_negative(seconds):
    shares = share_out(COUNTS, np.array(seconds))
    assert min(shares) >= 0
    assert max(shares) > 0


@pytest.mark.parametrize(("max_open", "seconds"), [(128, 1), (2, 1), (1, 1 + 9 / 2)])
def test_reopening_counts_as_part_of_a_seek(opened, copies, max_open, seconds):
    """With one of two files open, half of the seeks open a file."""
    videos, clock = opened(*copies(num_frames=12)), OpeningTakesTenSeconds()
    measured = measure_speed(videos, (32, 32), workers=2, max_open=max_open, clock=clock)
    assert measured.speed.seconds_per_seek == pytest.approx(seconds)
