"""Slots are dealt to ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.shards import Shard


@given(length=st.integers(1, 200), ranks=st.integers(1, 9))
def test_ranks_together_deliver_the_epoch_step_by_step(length, ranks):
    shards = [Shard(rank=rank, ranks=ranks) for rank in range(ranks)]
    dealt = np.stack([shard.slots(0, shard.count(length), length) for shard in shards], axis=1)
    slots = dealt.ravel()
    assert slots[:length].tolist() == list(range(length))
    assert slots[length:].tolist() == [slot % length for slot in range(len(slots) - length)]
    assert len(slots) - length < ranks


@given(length=st.integers(1, 200), ranks=st.integers(1, 9))
def test_dropping_leaves_out_the_last_slots(length, ranks):
    shards = [Shard(rank=rank, ranks=ranks, remainder="drop") for rank in range(ranks)]
    dealt = np.stack([shard.slots(0, shard.count(length), length) for shard in shards], axis=1)
    assert dealt.ravel().tolist() == list(range(length - length % ranks))


def test_a_part_is_found_without_what_comes_before():
    assert Shard(rank=1, ranks=3).slots(2, 4, 10).tolist() == [7, 0]


def test_a_rank_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="got rank 2 of 2"):
        Shard(rank=2, ranks=2)


def test_an_unknown_remainder_is_refused():
    with pytest.raises(ConfigError, match="one of repeat, drop, got 'pad'"):
        Shard(remainder="pad")


def test_more_slots_than_a_rank_has_are_refused():
    with pytest.raises(ConfigError, match=r"slots \[0, 5\) were asked of rank 1, which has 4"):
        Shard(rank=1, ranks=3).slots(0, 5, 10)
