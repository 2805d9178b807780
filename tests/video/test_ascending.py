"""Times that go back are put right, the others stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.video.ascending import ascending


@pytest.mark.parametrize(
    ("ticks", "expected"),
    [
        ([], []),
        ([5], [5]),
        ([0, 3, 3, 9], [0, 3, 3, 9]),
        ([0, 10, 40, 30, 40, 50], [0, 10, 20, 30, 40, 50]),
        ([9, 7, 8, 9], [7, 7, 8, 9]),
        ([0, 1, 2, 0], [0, 1, 2, 2]),
    ],
)
def test_what_breaks_the_order_goes_between_its_neighbours(ticks, expected):
    assert ascending(np.array(ticks, np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 50), max_size=40))
def test_the_result_ascends_and_the_longest_ascent_stays(ticks):
    found = ascending(np.array(ticks, np.int64))
    assert (np.diff(found) >= 0).all()
    longest = [0] * (len(ticks) + 1)
    for n, tick in enumerate(ticks):
        longest[n] = 1 + max((longest[k] for k in range(n) if ticks[k] <= tick), default=0)
    assert int((found == np.array(ticks, np.int64)).sum()) >= max(longest, default=0)
