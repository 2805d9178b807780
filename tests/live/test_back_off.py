"""Waits before attempts grow up to a longest one, and end where they are told to."""

import pytest

from headrace.errors import ConfigError
from headrace.live.back_off import BackOff


def test_waits_grow_up_to_the_longest():
    back_off = BackOff(first_seconds=0.25, factor=2, longest_seconds=2)
    assert [back_off.before(k) for k in range(6)] == [0.25, 0.5, 1, 2, 2, 2]
    assert back_off.before(10**9) == 2


def test_attempts_end():
    back_off = BackOff(attempts=2)
    assert [back_off.before(k) is None for k in range(4)] == [False, False, True, True]
    assert BackOff(attempts=0).before(0) is None


@pytest.mark.parametrize(
    "wrong",
    [{"first_seconds": -1}, {"longest_seconds": 0.1}, {"factor": 0.5}, {"attempts": -1}],
)
def test_refuses_waits_that_shrink(wrong):
    with pytest.raises(ConfigError):
        BackOff(**wrong)
