"""Comparison of frames: wrong, missing and surplus frames are counted."""

import numpy as np
import pytest

from benchmarks.adapters import Chunk
from benchmarks.equality import Equality, compare, compare_picked, thumbnails

RIGHT = list(range(10))


def film(order, tint=0):
    """Return thumbnails of a bar that moves down row by row; `tint` simulates another scaler."""
    frames = np.full((len(order), 64, 64, 3), 40 + tint, np.uint8)
    for position, number in enumerate(order):
        frames[position, 2 * number : 2 * number + 8] = 200 + tint
    [pictures] = thumbnails([Chunk(0, 0, frames)], 1)
    return pictures


def test_frames_of_another_scaler_are_equal_and_their_difference_is_reported():
    equality = compare([film(RIGHT)], [film(RIGHT, tint=3)])
    assert equality.holds
    assert equality == Equality(frames=10, missing=0, wrong=0, max_mean_difference=3.0)


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
    equality = compare([film(RIGHT)], [film(delivered, tint=3)])
    assert (equality.missing, equality.wrong) == (missing, wrong)
    assert not equality.holds


def test_frames_of_a_still_scene_are_right():
    still = film([4] * 5)
    assert compare([still], [still]).holds


def test_each_file_is_compared_with_its_own_reference():
    forward, backward = film(RIGHT), film(RIGHT[::-1])
    assert compare([forward, backward], [forward, backward]).holds
    assert not compare([forward, backward], [backward, forward]).holds


def test_thumbnails_are_means_of_blocks_per_file():
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
    """Return the thumbnails of a library that delivers the frames of `order`."""
    files = [film(RIGHT, tint), film(RIGHT[::-1], tint)]
    return np.stack([files[video][index] for video, index in order])


def test_picked_frames_of_another_scaler_are_equal():
    equality = compare_picked([film(RIGHT), film(RIGHT[::-1])], PICKED, picked(PICKED, tint=3))
    assert equality == Equality(frames=5, missing=0, wrong=0, max_mean_difference=3.0)


@pytest.mark.parametrize(
    ("position", "delivered"),
    [(0, [1, 4]), (0, [1, 2]), (1, [0, 1]), (2, [1, 8])],
    ids=["next", "previous", "next of the first", "previous of the last"],
)
def test_a_neighbor_of_a_picked_frame_is_wrong(position, delivered):
    order = PICKED.tolist()
    order[position] = delivered
    equality = compare_picked([film(RIGHT), film(RIGHT[::-1])], PICKED, picked(order, tint=3))
    assert (equality.wrong, equality.holds) == (1, False)
