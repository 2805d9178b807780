"""From wanted frames to decode jobs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, StreamIndex
from headrace.planning.stretches import in_order, stretches
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    clip = SynthClip(num_frames=60, size=(64, 96), gop=7, b_frames=2)
    return StreamIndex.scan(write_clip(tmp_path_factory.mktemp("plan") / "clip", clip))


@given(wanted=st.sets(st.integers(0, 59), min_size=1), at_least=st.integers(1, 70))
def test_every_wanted_frame_is_in_one_stretch_and_no_gop_in_two(index, wanted, at_least):
    asked = np.array(sorted(wanted), np.int64)
    plan = list(stretches(3, index, asked, at_least=at_least))
    assert [n for stretch in plan for n in stretch.wanted] == asked.tolist()
    gops = [{index.gop_of(n) for n in stretch.wanted} for stretch in plan]
    assert sum(map(len, gops)) == len(set().union(*gops))
    assert all(stretch.video == 3 for stretch in plan)


@given(wanted=st.sets(st.integers(0, 59), min_size=1), at_least=st.integers(1, 70))
def test_a_stretch_never_jumps_over_a_gop(index, wanted, at_least):
    for stretch in stretches(0, index, np.array(sorted(wanted), np.int64), at_least=at_least):
        gops = sorted({index.gop_of(n) for n in stretch.wanted})
        assert gops == list(range(gops[0], gops[-1] + 1))


def test_short_gops_are_kept_together_until_they_are_worth_a_seek(index):
    plan = list(in_order(0, index, at_least=16))
    assert [len(stretch.wanted) for stretch in plan][:-1] == [21] * (len(plan) - 1)


def test_a_stride_takes_every_nth_frame(index):
    assert [n for s in in_order(0, index, stride=13) for n in s.wanted] == [0, 13, 26, 39, 52]
    with pytest.raises(ConfigError, match="stride must be an integer >= 1, got 0"):
        in_order(0, index, stride=0)
