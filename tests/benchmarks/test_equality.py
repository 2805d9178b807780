"""The proof of equal frames fails where frames are wrong."""

import numpy as np
import pytest

from benchmarks.adapters import Chunk
from benchmarks.equality import Equality, compare, compare_picked, thumbnails

RIGHT = list(range(10))


def film(order, tint=0):
    """Thumbnails of a bar that moves down by a row per frame; `tint` stands for another scaler."""
    frames = np.full((len(order), 64, 64, 3), 40 + tint, np.uint8)
    for place, number in enumerate(order):
        frames[place, 2 * number : 2 * number + 8] = 200 + tint
    [pictures] = thumbnails([Chunk(0, 0, frames)], 1)
    return pictures


def test_another_scaler_is_equal_and_its_difference_is_told():
    found = compare([film(RIGHT)], [film(RIGHT, tint=3)])
    assert found.holds
    assert found == Equality(frames=10, missing=0, wrong=0, max_mean_difference=3.0)


@pytest.mark.parametrize(
    ("delivered", "missing", "wrong"),
    [
        ([0, 1, 2, 2, 4, 5, 6, 7, 8, 9], 0, 1),
        ([0, 1, 2, 4, 3, 5, 6, 7, 8, 9], 0, 2),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0, 9),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], 1, 0),
        ([*RIGHT, 10, 11], 2, 0),
        ([], 10, 0),
    ],
    ids=["repeated", "swapped", "shifted", "lost", "added", "nothing"],
)
def test_wrong_frames_are_counted(delivered, missing, wrong):
    found = compare([film(RIGHT)], [film(delivered, tint=3)])
    assert (found.missing, found.wrong) == (missing, wrong)
    assert not found.holds


def test_a_still_scene_is_no_proof_against_a_frame():
    still = film([4] * 5)
    assert compare([still], [still]).holds


def test_each_file_is_compared_with_its_own_reference():
    forward, backward = film(RIGHT), film(RIGHT[::-1])
    assert compare([forward, backward], [forward, backward]).holds
    assert not compare([forward, backward], [backward, forward]).holds


def test_thumbnails_are_means_of_blocks_and_keep_files_apart():
    frames = np.zeros((2, 64, 64, 3), np.uint8)
    frames[1, :2, :2] = [[[100] * 3, [50] * 3], [[50] * 3, [0] * 3]]
    first, second, empty = thumbnails([Chunk(1, 0, frames[:1]), Chunk(1, 1, frames[1:])], 3)
    assert (len(first), len(second), len(empty)) == (0, 2, 0)
    assert second[1, 0, 0].tolist() == [50, 50, 50]
    assert second[1].sum() == 150


def test_thumbnails_refuse_frames_out_of_order():
    frames = np.zeros((2, 64, 64, 3), np.uint8)
    with pytest.raises(ValueError, match="file 0: frame 4 came after 2 frames"):
        thumbnails([Chunk(0, 0, frames), Chunk(0, 4, frames)], 1)


PICKED = np.array([[1, 3], [0, 0], [1, 9], [0, 5], [1, 3]])


def picked(order, tint=0):
    """What a library delivers that takes `order` for what it was asked."""
    files = [film(RIGHT, tint), film(RIGHT[::-1], tint)]
    return np.stack([files[video][index] for video, index in order])


def test_picked_frames_of_another_scaler_are_equal():
    found = compare_picked([film(RIGHT), film(RIGHT[::-1])], PICKED, picked(PICKED, tint=3))
    assert found == Equality(frames=5, missing=0, wrong=0, max_mean_difference=3.0)


@pytest.mark.parametrize(
    ("place", "delivered"),
    [(0, [1, 4]), (0, [1, 2]), (1, [0, 1]), (2, [1, 8])],
    ids=["next", "previous", "next of the first", "previous of the last"],
)
def test_a_neighbour_of_a_picked_frame_is_wrong(place, delivered):
    order = PICKED.tolist()
    order[place] = delivered
    found = compare_picked([film(RIGHT), film(RIGHT[::-1])], PICKED, picked(order, tint=3))
    assert (found.wrong, found.holds) == (1, False)
