"""Overlays on frames of any size, and the mosaic of all sources."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.sinks.painting import Overlay, Tile, make_caption, mosaic
from sinks.made import boxes
from sinks.web.faked_run import labelled_frame

GREY = 200
LONG = "black-and-tan coonhound", "29%   #120"


def drawn(size: tuple[int, int], label: str, note: str) -> np.ndarray:
    """Draw on a grey frame; check that it is unchanged and that drawing is deterministic."""
    frame, overlay = np.full((*size, 3), GREY, np.uint8), Overlay(size)
    image, again = (overlay.draw(frame, label, note) for _ in range(2))
    assert image.shape == frame.shape
    assert (frame == GREY).all()
    assert np.array_equal(image, again)
    return image


def columns_with_text(image: np.ndarray) -> np.ndarray:
    return np.flatnonzero((image[:, :, 0] > GREY).any(axis=0))


def test_a_caption_has_the_likeliest_class_and_the_frame_index():
    assert make_caption(labelled_frame(120), 0) == ("street sign", "93%   #120")


@pytest.mark.parametrize("size", [(272, 640), (1080, 1920), (480, 272), (96, 128)])
def test_the_label_is_left_and_the_note_right_on_a_band_along_the_top(size):
    height, width = size
    image = drawn(size, "cab", "97%   #3")
    text = columns_with_text(image)
    assert text[0] < width / 8
    assert width * 7 / 8 < text[-1] < width - 2
    assert np.diff(text).max() > width / 10, "label and note are separate"
    rows = np.flatnonzero((image != GREY).any(axis=(1, 2)))
    assert rows.tolist() == list(range(len(rows)))
    assert len(rows) < height / 4


def test_the_frame_is_visible_through_the_band():
    frame = np.zeros((100, 100, 3), np.uint8)
    frame[:, 50:] = 255
    image = Overlay((100, 100)).draw(frame, "", "")
    assert image[0, 0, 0] < image[0, 99, 0] < 80


def test_a_label_that_does_not_fit_is_shortened_and_the_note_is_complete():
    size, (label, note) = (96, 128), LONG
    only_note, image = drawn(size, "", note), drawn(size, label, note)
    start = columns_with_text(only_note)[0]
    assert np.array_equal(image[:, start - 4 :], only_note[:, start - 4 :])
    assert columns_with_text(image)[0] < 10
    assert np.array_equal(image, drawn(size, f"{label}s", note))


@pytest.mark.parametrize("size", [(48, 64), (16, 16), (8, 200), (2, 2), (1, 1)])
def test_a_tiny_frame_keeps_its_size(size):
    drawn(size, *LONG)


def tile(height: int, width: int, *, age_seconds: float = 0.0) -> Tile:
    frame = np.full((height, width, 3), 96, np.uint8)
    caption = ("street sign", "93%   #7")
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
def test_all_sources_are_side_by_side(sizes, expected):
    assert mosaic([tile(*size) for size in sizes]).size == expected[::-1]


@pytest.mark.parametrize("count", [1, 2])
def test_boxes_on_a_tile_are_scaled_with_the_frame(count):
    """Two tiles have half the size."""
    scaled = replace(boxes(1), xyxy=(np.float32([(200, 300, 600, 600), (0, 0, 0, 0)]),))
    plain, boxed = tile(720, 1280), replace(tile(720, 1280), boxes=scaled)
    before, after = (np.asarray(mosaic([one_tile] * count)) for one_tile in (plain, boxed))
    rows, columns = np.nonzero((before != after).any(axis=2)[200 // count :, : 1280 // count])
    assert (rows.max() + 200 // count, columns.min()) == (600 // count, 200 // count)


def test_an_old_tile_beside_others_shows_its_age():
    fresh, recent, old = (
        mosaic([tile(360, 640), tile(360, 640, age_seconds=age)]).tobytes()
        for age in (0.5, 1.5, 12)
    )
    assert fresh == recent != old
