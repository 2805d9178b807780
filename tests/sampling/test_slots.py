"""Which sequence is read in which slot, and when; slots are dealt to ranks."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.sampling.sampler import Shard
from headrace.sampling.slots import EMPTY, SlotSchedule, TailCounts

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def schedule(lengths, slots, **options):
    return SlotSchedule(lengths=np.array(lengths), slots=slots, **options)


def grid(plan):
    """Return [slot][step] = (sequence, offset) of a plan."""
    return [[plan.at(slot, k) for k in range(plan.num_steps)] for slot in range(len(plan.ends))]


def counted(plan):
    return Counter(cell for row in grid(plan) for cell in row if cell != (EMPTY, EMPTY))


def frames(lengths):
    return {(sequence, k) for sequence, length in enumerate(lengths) for k in range(length)}


@given(
    lengths=LENGTHS,
    slots=st.integers(1, 12),
    tail=st.sampled_from(["pad", "drop", "refill"]),
    shuffle=st.booleans(),
    epoch=st.integers(0, 9),
)
def test_each_frame_comes_once_in_one_slot_except_for_the_tail(
    lengths, slots, tail, shuffle, epoch
):
    """Dropping leaves frames out, refilling repeats some; padding alone leaves slots empty."""
    assume(tail != "drop" or slots <= len(lengths))
    plan = schedule(lengths, slots, tail=tail, shuffle=shuffle).plan(epoch)
    found = counted(plan)
    assert tail == "drop" or set(found) == frames(lengths)
    assert tail == "refill" or set(found.values()) == {1}
    assert tail == "pad" or sum(found.values()) == plan.num_steps * slots
    for row in grid(plan):
        for (before, k), (after, next_k) in itertools.pairwise(row):
            if before == EMPTY:
                assert after == EMPTY
            elif k + 1 < lengths[before]:
                assert (after, next_k) == (before, k + 1)
            else:
                assert next_k in (0, EMPTY)


@given(lengths=LENGTHS, slots=st.integers(1, 12))
def test_slots_end_at_most_one_sequence_apart(lengths, slots):
    plan = schedule(lengths, slots).plan(0)
    assert max(plan.ends) - min(plan.ends) <= max(lengths)


@pytest.mark.parametrize(("clips", "ranks", "most"), [(10, 2, 5), (10, 8, 2), (4, 2, 2), (3, 4, 1)])
def test_equal_clips_are_shared_out_among_groups(clips, ranks, most):
    plan = schedule([7] * clips, 4 * ranks, group=4).plan(0)
    shares = [sum(map(len, plan.sequences[4 * r : 4 * r + 4])) for r in range(ranks)]
    assert max(shares) == most
    assert max(shares) - min(shares) <= 1


def test_a_long_last_sequence_does_not_leave_the_other_slots_empty():
    lengths = [10] * 12 + [40]
    assert schedule(lengths, 4).plan(0).ends == [40] * 4


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    slots=st.integers(1, 3),
    epoch=st.integers(0, 9),
)
def test_no_other_dealing_needs_much_fewer_steps(lengths, slots, epoch):
    plan = schedule(lengths, slots, shuffle=True).plan(epoch)
    assert plan.num_steps <= 4 / 3 * fewest_steps(sorted(lengths), slots)


def fewest_steps(lengths, slots):
    """Return the steps of the best of all dealings."""
    loads = {(0,) * slots}
    for length in lengths:
        loads = {
            tuple(sorted((*each[:slot], each[slot] + length, *each[slot + 1 :])))
            for each in loads
            for slot in range(slots)
        }
    return min(map(max, loads))


@given(lengths=LENGTHS, ranks=st.integers(1, 4), group=st.integers(1, 4))
def test_ranks_read_about_as_many_frames(lengths, ranks, group):
    """No slot is more than a sequence behind, and the slots of a rank are not all behind."""
    ends = schedule(lengths, ranks * group, group=group).plan(0).ends
    shares = [sum(ends[rank * group : (rank + 1) * group]) for rank in range(ranks)]
    assert max(shares) - min(shares) <= 2 * max(lengths)


def test_a_slot_reads_in_the_order_given():
    plan = schedule([3, 30, 5, 20, 9, 2], 2).plan(0)
    assert plan.sequences == [[0, 1, 5], [2, 3, 4]]


def test_a_shuffled_epoch_shows_other_sequences_side_by_side():
    """Lengths that hardly differ are dealt in random order, not always the longest first."""
    lengths = [100 + k for k in range(8)]
    mates = {
        frozenset(frozenset(mine) for mine in plan.sequences)
        for plan in (schedule(lengths, 4, shuffle=True).plan(epoch) for epoch in range(5))
    }
    assert len(mates) == 5


def test_a_shuffled_epoch_gives_the_longest_sequence_to_other_slots():
    plans = [schedule([90, 4, 3], 6, group=2, shuffle=True).plan(epoch) for epoch in range(40)]
    assert {plan.ends.index(90) for plan in plans} == set(range(6))
    for plan in plans:  # The groups have as many.
        assert [sum(map(len, plan.sequences[k : k + 2])) for k in (0, 2, 4)] == [1, 1, 1]


@pytest.mark.parametrize(("slots", "group"), [(4, 4), (4, 2), (4, 1), (6, 3)])
def test_a_shuffled_run_shows_every_slot_about_as_many_sequences(slots, group):
    """Six sequences of which two are as long as a slot's share, in eight epochs of 100 seeds."""
    lengths, epochs, seeds = [3, 4, 2, 3, 5, 2], 8, 100
    times = np.zeros((slots, len(lengths)), np.int64)
    fewest = len(lengths)
    for seed in range(seeds):
        seen = [set() for _ in range(slots)]
        for epoch in range(epochs):
            plan = schedule(lengths, slots, group=group, shuffle=True, seed=seed).plan(epoch)
            assert plan.num_steps == (5 if slots <= 4 else max(lengths))
            for slot, mine in enumerate(plan.sequences):
                seen[slot].update(mine)
                times[slot, mine] += 1
        fewest = min(fewest, *map(len, seen))
    assert fewest >= 2
    even = seeds * epochs / slots  # of 800: five standard deviations of a fair coin are 71
    assert np.abs(times - even).max() <= 71


def test_the_effects_of_a_tail_are_counted():
    """Slots have 9 and 5 + 2 moments to read; a sequence of 5 comes first in the order."""
    for tail, steps, counts in (
        ("pad", 9, TailCounts(empty=2)),
        ("drop", 7, TailCounts(dropped=2)),
        ("refill", 9, TailCounts(repeated=2)),
    ):
        plan = schedule([5, 9, 2], 2, tail=tail).plan(0)
        assert (plan.num_steps, plan.tail(range(2), 0, steps)) == (steps, counts)


@given(
    lengths=LENGTHS,
    slots=st.integers(1, 6),
    tail=st.sampled_from(["pad", "drop", "refill"]),
    cuts=st.lists(st.integers(0, 400), max_size=4),
)
def test_counts_of_a_tail_add_up_over_slots_and_steps(lengths, slots, tail, cuts):
    assume(tail != "drop" or slots <= len(lengths))
    plan = schedule(lengths, slots, tail=tail).plan(0)
    edges = [0, *sorted({min(cut, plan.num_steps) for cut in cuts} - {0, plan.num_steps})]
    counts = TailCounts()
    for slot in range(slots):
        for start, stop in itertools.pairwise([*edges, plan.num_steps]):
            counts += plan.tail([slot], start, stop)
    found = counted(plan)
    cells = plan.num_steps * slots
    assert counts.empty == cells - sum(found.values())
    assert counts.repeated == sum(found.values()) - len(found)
    assert counts.dropped == sum(lengths) - len(found)


def test_each_epoch_has_an_order_of_its_own_and_a_seed_names_it():
    lengths = [3] * 20
    plans = [schedule(lengths, 4, shuffle=True, seed=7).plan(epoch) for epoch in (0, 1, 0)]
    assert grid(plans[0]) == grid(plans[2]) != grid(plans[1])
    assert grid(schedule(lengths, 4, shuffle=True, seed=8).plan(0)) != grid(plans[0])
    assert grid(schedule(lengths, 4, seed=8).plan(3)) == grid(schedule(lengths, 4).plan(0))


@given(length=st.integers(1, 200), ranks=st.integers(1, 9))
def test_ranks_together_deliver_the_epoch_step_by_step(length, ranks):
    """And its first slots again, or not the last ones."""

    def dealt(**remainder):
        shards = [Shard(rank=rank, ranks=ranks, **remainder) for rank in range(ranks)]
        slots = [shard.slots(0, shard.count(length), length) for shard in shards]
        return np.stack(slots, axis=1).ravel().tolist()

    steps = -(-length // ranks) * ranks
    assert dealt() == [slot % length for slot in range(steps)]
    assert dealt(remainder="drop") == list(range(length - length % ranks))
    # A part is found without what comes before.
    assert Shard(rank=1, ranks=3).slots(2, 4, 10).tolist() == [7, 0]
