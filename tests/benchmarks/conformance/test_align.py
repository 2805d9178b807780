"""Tests of benchmarks/conformance/align.py: which frame of the plain decode a frame may be."""

import numpy as np
import pytest

from benchmarks.conformance.align import align
from benchmarks.conformance.reference import NO_PTS


def ranges(index: list[int], reference: list[int], *, is_whole: bool = True) -> list[list[int]]:
    found = align(np.array(index, np.int64), np.array(reference, np.int64), is_whole=is_whole)
    return [list(range(a, b)) for a, b in zip(found.first, found.stop, strict=True)]


@pytest.mark.parametrize(
    ("index", "reference", "expected"),
    [
        pytest.param([0, 1, 2], [0, 1, 2], [[0], [1], [2]], id="the same times"),
        pytest.param([0, 1, 2], [7, 8, 9], [[0], [1], [2]], id="other times, as many frames"),
        pytest.param([0, 0, 0], [0, 0, 0], [[0], [1], [2]], id="times that repeat"),
        pytest.param([0, 1, 2], [NO_PTS] * 3, [[0], [1], [2]], id="no times"),
        pytest.param([0, 1, 2], [1, 2, NO_PTS], [[0], [1], [2]], id="a time is missing"),
        pytest.param([0, 1, 2, 3], [0, 1, 3], [[0], [1], [], [2]], id="one is lost"),
        pytest.param([0, 1, 2, 3], [2, 3], [[], [], [0], [1]], id="the first are lost"),
        pytest.param([0, 2, 3], [0, 1, 2, 3], [[0], [2], [3]], id="the index lacks one"),
        pytest.param(
            [0, 1, 1, 1, 2, 3],
            [0, 1, 1, 2, 3],
            [[0], [1], [1, 2], [2], [3], [4]],
            id="one of those of one time is lost",
        ),
        pytest.param(
            [0, 1, 1, 2], [0, 1, 1, 1, 2], [[0], [1, 2], [2, 3], [4]], id="or lacking there"
        ),
        pytest.param([0, 1, 2], [NO_PTS] * 2, [[0], [0, 1], [1]], id="one lost without times"),
        pytest.param([0, 1], [], [[], []], id="nothing was decoded"),
    ],
)
def test_frames_are_matched_by_times_and_then_by_order(
    index: list[int], reference: list[int], expected: list[list[int]]
) -> None:
    assert ranges(index, reference) == expected


def test_one_lost_at_each_end_moves_the_frames_between() -> None:
    """As many frames on both sides, yet not the same ones: 19 of 20 times say so."""
    found = ranges(list(range(20)), list(range(1, 21)))
    assert found == [[], *([n] for n in range(19))]


def test_a_few_equal_times_move_no_frame() -> None:
    assert ranges([0, 10, 20, 30], [10, 20, 33, 44]) == [[0], [1], [2], [3]]


def test_frames_that_the_index_lacks_are_named() -> None:
    found = align(np.array([0, 2, 3]), np.array([0, 1, 2, 3, 4]))
    assert (found.unindexed, found.loose) == ((1, 4), 0)


def test_frames_with_a_choice_are_counted() -> None:
    assert align(np.array([0, 1, 2]), np.array([NO_PTS] * 2)).loose == 1


def test_the_alignment_ends_with_a_plain_decode_that_ended_early() -> None:
    assert ranges([0, 1, 2, 3, 4, 5], [0, 2, 3], is_whole=False) == [[0], [], [1], [2]]
    assert ranges([0, 0, 0, 0], [0, 0], is_whole=False) == [[0], [1]]
