"""Every two flags of a run meet in every way that is possible."""

from itertools import combinations, product

from benchmarks.gpu_check.pairs import FLAGS, REFUSED, covering, is_refused


def test_all_pairs_meet_that_can_and_none_that_is_refused():
    chosen = covering()
    assert chosen[0] == frozenset()
    assert not any(map(is_refused, chosen))
    for one, other in combinations(FLAGS, 2):
        for first, second in product((True, False), repeat=2):
            met = any((one in c, other in c) == (first, second) for c in chosen)
            assert met != (first and second and {one, other} in REFUSED), (one, other)


def test_they_are_few():
    assert len(covering()) == len(set(covering())) <= 8
