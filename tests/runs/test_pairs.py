"""Combinations that hold every pair."""

from itertools import combinations, product

from runs.pairs import pairwise


def test_every_pair_of_values_is_in_a_combination_and_there_are_few():
    values = {"a": (1, 2, 3), "b": (True, False), "c": ("x", "y"), "d": (None, 0, 1, 2)}
    found = pairwise(values)
    for one, other in combinations(values, 2):
        pairs = {(each[one], each[other]) for each in found}
        assert pairs == set(product(values[one], values[other]))
    assert all(list(each) == list(values) for each in found)
    assert len(found) < 20
