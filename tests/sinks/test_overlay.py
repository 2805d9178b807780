"""Text on frames of any size."""

import numpy as np
import pytest

from headrace.sinks.overlay import Overlay

GREY = 200


def drawn(size: tuple[int, int], label: str, note: str) -> np.ndarray:
    """Return what is drawn on a grey frame, which must stay as it is."""
    frame = np.full((*size, 3), GREY, np.uint8)
    picture = Overlay(size).draw(frame, label, note)
    assert picture.shape == frame.shape
    assert (frame == GREY).all()
    return picture


def columns_with_text(picture: np.ndarray) -> np.ndarray:
    band = picture[:, :, 0]
    return np.flatnonzero((band > GREY).any(axis=0))


@pytest.mark.parametrize("size", [(272, 640), (1080, 1920), (480, 272), (96, 128)])
def test_label_stands_left_and_note_right_on_a_band_along_the_top(size):
    height, width = size
    picture = drawn(size, "cab", "97%   #3")
    text = columns_with_text(picture)
    assert text[0] < width / 8
    assert width * 7 / 8 < text[-1] < width - 2
    assert np.diff(text).max() > width / 10, "label and note stand apart"
    rows = np.flatnonzero((picture != GREY).any(axis=(1, 2)))
    assert rows.tolist() == list(range(len(rows)))
    assert len(rows) < height / 4


def test_the_picture_shows_through_the_band():
    frame = np.zeros((100, 100, 3), np.uint8)
    frame[:, 50:] = 255
    picture = Overlay((100, 100)).draw(frame, "", "")
    assert picture[0, 0, 0] < picture[0, 99, 0] < 80


def test_a_label_that_does_not_fit_is_shortened_and_the_note_is_whole():
    size, note = (96, 128), "29%   #120"
    alone = drawn(size, "", note)
    picture = drawn(size, "black-and-tan coonhound", note)
    start = columns_with_text(alone)[0]
    assert np.array_equal(picture[:, start - 4 :], alone[:, start - 4 :])
    assert columns_with_text(picture)[0] < 10
    assert np.array_equal(picture, drawn(size, "black-and-tan coonhounds", note))


@pytest.mark.parametrize("size", [(48, 64), (16, 16), (8, 200), (2, 2), (1, 1)])
def test_a_tiny_frame_keeps_its_size(size):
    drawn(size, "black-and-tan coonhound", "29%   #120")


def test_drawing_again_gives_the_same():
    overlay, frame = Overlay((96, 128)), np.full((96, 128, 3), GREY, np.uint8)
    assert np.array_equal(overlay.draw(frame, "a", "b"), overlay.draw(frame, "a", "b"))
