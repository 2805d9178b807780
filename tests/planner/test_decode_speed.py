"""What decoding costs is measured on the files themselves, good and bad."""

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
    found = measure_speed(opened(*copies()), (32, 32), workers=2)
    assert found.gops == 8
    # The first frame twice, then two times all frames of a GOP, and what was on its way.
    assert 8 * (1 + 1 + 12 + 12) <= found.frames < 8 * 4 * 12
    speed = found.speed
    assert speed.workers == 2
    assert min(speed.seconds_per_seek, speed.seconds_per_decoded) >= 0
    assert speed.droppable_share == 0


def test_frames_that_may_be_skipped_are_counted(opened, copies):
    videos = opened(*copies(1, b_frames=2))
    share = videos.indexes[0].is_disposable.mean()
    assert share > 0.3
    found = measure_speed(videos, (32, 32), workers=1)
    assert found.speed.droppable_share == pytest.approx(share)


def test_gops_that_cannot_be_decoded_are_left_out_and_where_none_can_it_is_said(
    opened, copies, tmp_path
):
    [good] = copies(1)
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[0])
    assert measure_speed(opened(bad), (32, 32), workers=1).gops == 3
    bad = damage.damage_packets(good, tmp_path / "worse.mp4", ordinals=range(48))
    with pytest.raises(DecodeError, match="cannot be decoded"):
        measure_speed(opened(bad), (32, 32), workers=1)


COUNTS = np.array([(1, 1, 1, 1), (0, 1, 1, 1), (0, 1, 30, 1), (0, 1, 30, 30)] * 5, np.float64)


def test_times_are_shared_out_among_what_took_them_and_one_hold_up_does_not_weigh_on_all():
    shares = [0.004, 0.003, 0.002, 0.001]
    seconds = COUNTS @ shares
    assert share_out(COUNTS, seconds) == pytest.approx(shares)
    seconds[2] += 5
    assert share_out(COUNTS, seconds)[2] == pytest.approx(0.002, rel=0.2)
    counts = COUNTS * [0, 1, 1, 1]  # what never happened takes no time
    assert share_out(counts, counts @ shares)[0] == 0


@given(seconds=st.lists(st.floats(1e-4, 10), min_size=20, max_size=20))
def test_nothing_takes_less_than_no_time(seconds):
    shares = share_out(COUNTS, np.array(seconds))
    assert min(shares) >= 0
    assert max(shares) > 0


@pytest.mark.parametrize(("max_open", "seconds"), [(128, 1), (2, 1), (1, 1 + 9 / 2)])
def test_what_cannot_stay_open_is_opened_again_to_enter_a_gop(opened, copies, max_open, seconds):
    """Of two videos, one that may stay open is half of them."""
    videos, clock = opened(*copies(num_frames=12)), OpeningTakesTenSeconds()
    found = measure_speed(videos, (32, 32), workers=2, max_open=max_open, clock=clock)
    assert found.speed.seconds_per_seek == pytest.approx(seconds)
