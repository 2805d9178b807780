"""The search finds the smallest that holds in few trials, whatever the system is."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.stability_search import Candidate, next_candidate, smallest_held

BATCHES, DEPTHS = (1, 2, 4, 8, 16), (1, 2, 4, 8)


def at(batch_size, queue_depth):
    return Candidate(batch_size=batch_size, queue_depth=queue_depth)


def searched(holds, batch_sizes=BATCHES, queue_depths=DEPTHS):
    """All that was tried on a system that is steady where `holds` says."""
    tried = []
    while (candidate := next_candidate(tried, batch_sizes, queue_depths)) is not None:
        tried.append((candidate, holds(candidate)))
    return tried


@given(batch_size=st.sampled_from(BATCHES), queue_depth=st.sampled_from(DEPTHS))
def test_the_smallest_is_found_in_few_trials(batch_size, queue_depth):
    tried = searched(
        lambda c: (
            c.batch_size > batch_size
            or (c.batch_size == batch_size and c.queue_depth >= queue_depth)
        )
    )
    assert smallest_held(tried) == at(batch_size, queue_depth)
    assert len(tried) <= len(BATCHES) + 2


def test_batches_grow_with_the_deepest_queues_then_these_are_halved():
    tried = searched(lambda c: c.batch_size >= 4 and c.queue_depth >= 2)
    assert [candidate for candidate, _ in tried] == [
        at(1, 8),
        at(2, 8),
        at(4, 8),
        at(4, 2),
        at(4, 1),
    ]
    assert smallest_held(tried) == at(4, 2)


def test_where_nothing_holds_it_ends_with_the_largest():
    tried = searched(lambda c: False)
    assert [c.batch_size for c, _ in tried] == list(BATCHES)
    assert smallest_held(tried) is None


@given(
    batch_sizes=st.lists(st.integers(1, 64), min_size=1, max_size=6),
    queue_depths=st.lists(st.integers(1, 64), min_size=1, max_size=6),
    seed=st.randoms(use_true_random=False),
)
def test_it_ends_and_never_asks_twice_also_where_systems_contradict_themselves(
    batch_sizes, queue_depths, seed
):
    tried = searched(lambda c: seed.random() < 0.5, batch_sizes, queue_depths)
    candidates = [candidate for candidate, _ in tried]
    assert len(set(candidates)) == len(candidates)
    assert all(c.batch_size in batch_sizes and c.queue_depth in queue_depths for c in candidates)
