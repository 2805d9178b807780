"""Crops, sizes and turns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.video.fitting import Fitting
from headrace.video.shape import Crop, FrameShape, Orientation

ORIENTATIONS = [Orientation(t, h, v) for t in (False, True) for h in (False, True) for v in (0, 1)]
ONE = 1 << 16


@pytest.mark.parametrize(
    ("matrix", "degrees", "is_mirrored"),
    [
        ((ONE, 0, 0, ONE), 0, False),
        ((0, ONE, -ONE, 0), 90, False),
        ((-ONE, 0, 0, -ONE), 180, False),
        ((0, -ONE, ONE, 0), 270, False),
        ((-ONE, 0, 0, ONE), 0, True),
        ((ONE, 0, 0, -ONE), 180, True),
    ],
)
def test_a_display_matrix_is_a_turn_and_a_mirror(matrix, degrees, is_mirrored):
    a, b, c, d = matrix
    turn = Orientation.from_display_matrix([a, b, 0, c, d, 0, 0, 0, 1 << 30])
    assert (turn.rotation_degrees, turn.is_mirrored, turn.is_exact) == (degrees, is_mirrored, True)


@pytest.mark.parametrize("matrix", [(0, 0, 0, 0), (ONE, ONE, -ONE, ONE), (-(2**31), 3, 9, 5)])
def test_a_matrix_that_is_no_right_angle_turns_nothing_and_says_so(matrix):
    a, b, c, d = matrix
    turn = Orientation.from_display_matrix([a, b, 0, c, d, 0, 0, 0, 1 << 30])
    assert turn == Orientation()
    assert not turn.is_exact


def test_turning_clockwise_moves_the_left_column_to_the_top():
    frame = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    turned = Orientation(True, True, False).upright(frame)
    assert turned[..., 0].tolist() == [[3, 0], [4, 1], [5, 2]]


@pytest.mark.parametrize("turn", ORIENTATIONS)
def test_an_upright_frame_becomes_again_what_was_stored(turn):
    frame = np.arange(12, dtype=np.uint8).reshape(2, 6, 1)
    assert np.array_equal(turn.stored(turn.upright(frame)), frame)


@pytest.mark.parametrize("turn", ORIENTATIONS)
@given(data=st.data())
def test_cropping_before_the_turn_equals_cropping_after_it(turn, data):
    height, width = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    frame = np.arange(height * width, dtype=np.uint8).reshape(height, width, 1)
    upright = turn.upright(frame)
    assert upright.shape[:2] == turn.upright_size((height, width))
    top = data.draw(st.integers(0, upright.shape[0] - 1))
    left = data.draw(st.integers(0, upright.shape[1] - 1))
    crop = Crop(
        top=top,
        left=left,
        height=data.draw(st.integers(1, upright.shape[0] - top)),
        width=data.draw(st.integers(1, upright.shape[1] - left)),
    )
    stored = turn.stored_crop(crop, (height, width))
    first = frame[stored.top :, stored.left :][: stored.height, : stored.width]
    after = upright[crop.top :, crop.left :][: crop.height, : crop.width]
    assert np.array_equal(turn.upright(first), after)


def test_a_shape_tells_the_size_of_its_result():
    crop = Crop(top=1, left=2, height=30, width=40)
    assert FrameShape().output_size((50, 60)) == (50, 60)
    assert FrameShape(crop=crop).output_size((50, 60)) == (30, 40)
    assert FrameShape(crop=crop, size=(8, 9)).output_size((50, 60)) == (8, 9)


@pytest.mark.parametrize(
    ("scaled", "offset"),
    [((4, 6), (0, 0)), ((4, 6), (-1, 2)), ((2, 3), (1, 1)), ((9, 9), (-3, -2)), ((9, 9), (2, -9))],
)
def test_a_picture_lies_where_its_fitting_says_and_the_rest_is_black(scaled, offset):
    pixels = np.arange(1, 1 + scaled[0] * scaled[1], dtype=np.uint8).reshape(scaled)
    expected = np.zeros((4, 6), np.uint8)
    for row in range(4):
        for column in range(6):
            there = row - offset[0], column - offset[1]
            if 0 <= there[0] < scaled[0] and 0 <= there[1] < scaled[1]:
                expected[row, column] = pixels[there]
    out = np.full((4, 6), 99, np.uint8)
    Fitting(size=(4, 6), scaled=scaled, offset=offset).place(pixels, out)
    assert np.array_equal(out, expected)


def test_a_fitting_needs_its_own_size():
    fitting = Fitting(size=(4, 6), scaled=(8, 6))
    assert FrameShape(size=(4, 6), fit=fitting).fitting((80, 60)) is fitting
