"""What the ways of `bench sampling` are called and what they draw, from the record's figures."""

import pytest

from bench.sampling_records import recorded, strategy
from headrace.bench.sampling_record import WAYS, draws, how, label

SAME = ("baseline", "dataset", "naive", "look-ahead", "quarter")


def test_ways_that_draw_the_very_same_frames_say_the_same():
    record = recorded()
    said = {way: draws(strategy(way), record) for way in WAYS}
    assert len({said[way] for way in SAME}) == 1
    assert len(set(said.values())) == 3


def test_bursts_say_what_a_batch_is_worth_over_many_steps():
    record = recorded(batch_size=8, burst=4, rho=0.5)
    said = draws(strategy("bursts", inflation=2.5), record)
    assert "each frame once an epoch, 4 from one decoding" in said
    assert (
        "a batch of 8 is worth as little as 3 independent frames (D = 1 + 3 x 0.5 = 2.50)" in said
    )
    assert "lanes=8), lookahead=25)" in how("bursts", record)


@pytest.mark.parametrize(
    ("memory", "labels"),
    [
        (2**30, ("look-ahead 1,024 MiB", "look-ahead 256 MiB")),
        (2**20, ("look-ahead 1 MiB", "look-ahead 0.25 MiB")),
    ],
)
def test_a_quarter_of_the_memory_is_one(memory, labels):
    assert tuple(label(way, memory, 8) for way in SAME[3:]) == labels
