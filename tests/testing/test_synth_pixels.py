"""A picture's number survives what decoding does to it, and a misread is an error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.testing.synth_pixels import BARS, draw_picture, read_bars, read_number
from headrace.video.number_code import MIN_SIDE, NUMBERS

NUMBER = st.integers(0, NUMBERS - 1)
SIZE = st.tuples(st.integers(MIN_SIDE, 200), st.integers(MIN_SIDE, 200))


def shrunk(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale by taking the nearest pixel: the crudest way there is."""
    rows = (np.arange(size[0]) + 0.5) * picture.shape[0] // size[0]
    columns = (np.arange(size[1]) + 0.5) * picture.shape[1] // size[1]
    return picture[rows.astype(int)][:, columns.astype(int)]


@given(number=NUMBER, size=SIZE, bars=st.booleans())
def test_the_number_drawn_is_the_number_read(
    number: int, size: tuple[int, int], bars: bool
) -> None:
    assert read_number(draw_picture(number, size, bars=bars)) == number


@given(number=NUMBER)
def test_the_number_survives_scaling_down(number: int) -> None:
    assert read_number(shrunk(draw_picture(number, (270, 480)), (64, 64))) == number


@given(number=st.integers(-NUMBERS, 2 * NUMBERS))
def test_numbers_wrap_around(number: int) -> None:
    assert read_number(draw_picture(number, (96, 128))) == number % NUMBERS


@given(number=NUMBER)
def test_a_mirrored_or_turned_picture_has_no_number(number: int) -> None:
    picture = draw_picture(number, (96, 96))
    for turns in range(4):
        for turned in (np.rot90(picture, turns), np.rot90(picture[:, ::-1], turns)):
            if not np.array_equal(turned, picture):
                with pytest.raises(ValueError, match="no frame number here"):
                    read_number(turned)


@given(numbers=st.lists(NUMBER, min_size=2, max_size=2, unique=True))
def test_two_pictures_blended_have_no_number(numbers: list[int]) -> None:
    first, second = (draw_picture(number, (96, 128)).astype(int) for number in numbers)
    with pytest.raises(ValueError, match="no frame number here"):
        read_number(((first + second) // 2).astype(np.uint8))


@given(number=NUMBER, places=st.sets(st.integers(0, 29), min_size=1, max_size=3))
def test_up_to_three_wrong_blocks_are_an_error(number: int, places: set[int]) -> None:
    picture = draw_picture(number, (80, 60))
    for place in places:
        row, column = divmod(place, 6)
        block = picture[10 * row : 10 * row + 10, 10 * column : 10 * column + 10]
        block[:] = 255 - block
    with pytest.raises(ValueError, match="no frame number here"):
        read_number(picture)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_a_flat_picture_has_no_number(level: int) -> None:
    with pytest.raises(ValueError, match="no frame number here"):
        read_number(np.full((96, 128, 3), level, np.uint8))


@pytest.mark.parametrize(
    "frame",
    [
        np.zeros((96, 128), np.uint8),
        np.zeros((3, 96, 128), np.uint8),
        np.zeros((96, 128, 3), np.float32),
    ],
)
def test_a_frame_of_another_layout_is_an_error(frame: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match=r"must be uint8 \[H, W, 3\]"):
        read_number(frame)


def test_the_bars_have_their_colours() -> None:
    assert np.array_equal(read_bars(draw_picture(5, (96, 128), bars=True)), BARS)


def test_the_texture_moves_and_is_no_plain_shift() -> None:
    before, after = (draw_picture(number, (96, 128))[60:].astype(int) for number in (5, 6))
    shifts = [(dy, dx) for dy in range(-4, 5) for dx in range(-4, 5)]
    differences = [np.abs(np.roll(before, s, (0, 1)) - after)[8:-8, 8:-8].mean() for s in shifts]
    assert min(differences) > 2
