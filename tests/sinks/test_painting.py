"""What is written on frames of any size, and the pictures of all sources in one."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.sinks.latest_images import Tile, mosaic
from headrace.sinks.painting import Caption, Overlay, make_caption
from sinks.made import boxes
from sinks.web.faked_run import seen

GREY = 200
LONG = "black-and-tan coonhound", "29%   #120"


def drawn(size: tuple[int, int], label: str, note: str) -> np.ndarray:
    """Return what is drawn on a grey frame, which must stay as it is; twice the same."""
    frame, overlay = np.full((*size, 3), GREY, np.uint8), Overlay(size)
    picture, again = (overlay.draw(frame, label, note) for _ in range(2))
    assert picture.shape == frame.shape
    assert (frame == GREY).all()
    assert np.array_equal(picture, again)
    return picture


def columns_with_text(picture: np.ndarray) -> np.ndarray:
    return np.flatnonzero((picture[:, :, 0] > GREY).any(axis=0))


def test_a_caption_names_the_likeliest_class_and_the_frame():
    assert make_caption(seen(120), 0) == Caption("street sign", "93%   #120")


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
    size, (label, note) = (96, 128), LONG
    alone, picture = drawn(size, "", note), drawn(size, label, note)
    start = columns_with_text(alone)[0]
    assert np.array_equal(picture[:, start - 4 :], alone[:, start - 4 :])
    assert columns_with_text(picture)[0] < 10
    assert np.array_equal(picture, drawn(size, f"{label}s", note))


@pytest.mark.parametrize("size", [(48, 64), (16, 16), (8, 200), (2, 2), (1, 1)])
def test_a_tiny_frame_keeps_its_size(size):
    drawn(size, *LONG)


def tile(height: int, width: int, *, age_seconds: float = 0.0) -> Tile:
    frame = np.full((height, width, 3), 96, np.uint8)
    caption = Caption("street sign", "93%   #7")
    return Tile(frame=frame, caption=caption, name="door", age_seconds=age_seconds)


MOSAICS = [
    *(([(36, 64)], (36, 64)), ([(1080, 1920)], (540, 960)), ([(1920, 1080)], (960, 540))),
    *(
        ([(720, 1280)] * n, size)
        for n, size in ((2, (360, 1280)), (3, (720, 1280)), (5, (480, 1281)))
    ),
    ([(36, 64), (720, 1280)], (360, 1280)),
]


@pytest.mark.parametrize(("sizes", "expected"), MOSAICS)
def test_all_sources_stand_side_by_side(sizes, expected):
    assert mosaic([tile(*size) for size in sizes]).size == expected[::-1]


@pytest.mark.parametrize("count", [1, 2])
def test_boxes_lie_on_a_tile_where_they_lie_on_the_frame(count):
    """Of two tiles each is half as large."""
    place = replace(boxes(1), xyxy=(np.float32([(200, 300, 600, 600), (0, 0, 0, 0)]),))
    plain, found = tile(720, 1280), replace(tile(720, 1280), boxes=place)
    before, after = (np.asarray(mosaic([each] * count)) for each in (plain, found))
    rows, columns = np.nonzero((before != after).any(axis=2)[200 // count :, : 1280 // count])
    assert (rows.max() + 200 // count, columns.min()) == (600 // count, 200 // count)


def test_an_old_tile_beside_others_says_so():
    fresh, same, old = (
        mosaic([tile(360, 640), tile(360, 640, age_seconds=age)]).tobytes()
        for age in (0.5, 1.5, 12)
    )
    assert fresh == same != old
