"""Times of a proxy for players: the original's, where MP4 can hold them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headrace.extraction.proxies.times import PlayTimes
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return StreamIndex.scan(write_clip(tmp_path_factory.mktemp("t") / "a", SynthClip(num_frames=4)))


def timed(index, pts, time_base, last=1):
    pts = np.array(pts, np.int64)
    return PlayTimes.of(
        replace(
            index,
            pts=pts,
            duration=np.append(np.diff(pts), last),
            info=replace(index.info, time_base=Fraction(time_base)),
        )
    )


@pytest.mark.parametrize(
    ("pts", "time_base", "ticks", "expected"),
    [
        ((5, 7, 10, 11), "1/1000", 1000, (5, 7, 10, 11)),
        ((0, 1, 2, 3), "1001/30000", 30000, (0, 1001, 2002, 3003)),
        ((-9, -5, 0, 1), "1/90000", 90000, (0, 4, 9, 10)),
        ((0, 0, 0, 5), "1/25", 25, (0, 1, 2, 7)),
        ((0, 1 << 40, 1 << 41, 1 << 41), "1/10", 10, (0, (1 << 31) - 1, (1 << 32) - 2, 2**32 - 1)),
        (
            (0, 10**9, 2 * 10**9, 3 * 10**9),
            "1/10000000000",
            10**6,
            (0, 10**5, 2 * 10**5, 3 * 10**5),
        ),
    ],
)
def test_they_ascend_from_0_and_are_the_originals_where_mp4_can_hold_them(
    index, pts, time_base, ticks, expected
):
    times = timed(index, pts, time_base)
    assert (times.ticks_per_second, tuple(times.pts.tolist())) == (ticks, expected)
    assert times.duration.min() >= 1
