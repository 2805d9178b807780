"""Frames on a line: each has its share of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.line import line_of
from headrace.sampling.population import Population
from sampling.populations import populations, share, uneven

TWO = Population.of([np.array([2]), np.array([4])], [np.array([1.0, 0]), np.ones(4)])


@given(population=populations(), data=st.data())
def test_every_frame_has_its_share_of_the_line_in_the_order_of_ids(population, data):
    weights = st.tuples(*[st.integers(1, 9)] * population.num_videos)
    over = data.draw(st.sampled_from(["frames", "seconds", "videos"]) | weights)
    ends = np.cumsum(share(population, over))
    line = line_of(population, over)
    for place in (0.001, 0.5, 0.999):
        inside = ends - (1 - place) * share(population, over)
        assert line(inside).tolist() == list(range(population.num_frames))


@pytest.mark.parametrize(("over", "last"), [("seconds", 5), ("videos", 5), ((1.0, 0.0), 1)])
def test_the_end_of_the_line_is_the_last_frame_that_has_a_share(over, last):
    assert line_of(TWO, over)(np.array([1 - 2.0**-53, 1.0])).tolist() == [last, last]


def test_what_has_no_share_is_never_hit():
    places = np.linspace(0, 1, 1001)
    assert 1 not in line_of(TWO, "seconds")(places)
    assert set(line_of(TWO, (0.0, 1.0))(places)) == {2, 3, 4, 5}


def test_time_needs_durations():
    with pytest.raises(ConfigError, match=r"give durations_seconds to Population\.of"):
        line_of(Population.of([np.array([3])]), "seconds")


def test_every_video_needs_a_weight():
    with pytest.raises(
        ConfigError, match="one weight is needed for each of 12 videos or rows, got 2"
    ):
        line_of(uneven(), (1, 2))
