"""Which frames are shown at times in seconds."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.shown import shown_at, shown_between, shown_range
from headrace.video.stream_index import StreamIndex

KINDS_OF_TIME = [kind for kind in KINDS if kind in ("h264", "vp9") or "vfr" in kind or "ts" in kind]


@pytest.fixture(params=KINDS_OF_TIME)
def index(request, tmp_path):
    return StreamIndex.scan(write_clip(tmp_path / "clip", KINDS[request.param]))


def test_each_frame_is_shown_from_its_time_until_the_next_begins(index):
    times = [int(pts) * index.info.time_base for pts in index.pts]
    middles = [(a + b) / 2 for a, b in zip(times, [*times[1:], shown_range(index)[1]], strict=True)]
    everything = list(range(len(index)))
    assert shown_at(index, times).tolist() == everything
    assert shown_at(index, map(float, times)).tolist() == everything
    assert shown_at(index, [f"{float(each):.6f}" for each in times]).tolist() == everything
    assert shown_at(index, middles).tolist() == everything


def test_ranges_that_follow_each_other_share_no_frame(index):
    times = index.seconds_of(np.arange(len(index)))
    cuts = [float(times[0]), float(times[len(times) // 3]), float(times[-5]), None]
    parts = [shown_between(index, a, b, None) for a, b in pairwise(cuts)]
    assert np.concatenate(parts).tolist() == list(range(len(index)))


def test_a_rate_gives_as_many_frames_as_the_time_holds(index):
    start, stop = shown_range(index)
    for rate in (Fraction(7), Fraction(30000, 1001), 100):
        found = shown_between(index, start, stop, rate)
        assert len(found) == -((start - stop) * rate // 1)
        assert found.tolist() == sorted(found)


def test_before_the_first_frame_and_behind_the_last_nothing_is_shown(index):
    start, stop = shown_range(index)
    for seconds in (start - 1, stop, stop + 1):
        with pytest.raises(ConfigError, match="which shows frames from"):
            shown_at(index, [seconds])
