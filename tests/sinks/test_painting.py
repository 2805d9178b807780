"""Overlays on frames of any size, the mosaic of all sources, and frames side by side."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from headrace.sinks.painting import Overlay, Tile, make_caption, mosaic, write_side_by_side
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


RED, BLUE = (255, 0, 0), (0, 0, 255)
WHITE = (255, 255, 255)


def flat(color: tuple[int, int, int], size: tuple[int, int] = (40, 60)) -> np.ndarray:
    return np.full((*size, 3), color, np.uint8)


def test_frames_are_side_by_side_above_their_captions(tmp_path):
    write_side_by_side(tmp_path / "two.png", [(flat(RED), "first"), (flat(BLUE), "last")])
    with Image.open(tmp_path / "two.png") as picture:
        assert picture.size == (60 + 8 + 60, 40 + 24)
        assert picture.getpixel((30, 20)) == RED
        assert picture.getpixel((98, 20)) == BLUE
        assert picture.crop((0, 40, 60, 64)).getcolors() != [(60 * 24, WHITE)]


def test_captions_wider_than_their_frames_do_not_touch(tmp_path):
    frames = [(flat(RED, (16, 16)), "frame 1234, 12.345 s")] * 2
    write_side_by_side(tmp_path / "two.png", frames)
    with Image.open(tmp_path / "two.png") as picture:
        captions = np.asarray(picture)[16:].min(axis=(0, 2)) < 255
    left, right = np.split(captions, 2)
    assert left.sum() == right.sum() > 60
    assert not left[-4:].any()
    assert not right[:4].any()


def test_frames_of_different_heights_are_aligned_at_the_top(tmp_path):
    write_side_by_side(tmp_path / "two.png", [(flat(RED), ""), (flat(BLUE, (20, 60)), "")])
    with Image.open(tmp_path / "two.png") as picture:
        assert picture.height == 64
        assert [picture.getpixel((98, y)) for y in (0, 19, 20)] == [BLUE, BLUE, WHITE]


def test_the_suffix_chooses_the_format(tmp_path):
    write_side_by_side(tmp_path / "one.jpg", [(flat(RED), "first")])
    with Image.open(tmp_path / "one.jpg") as picture:
        assert picture.format == "JPEG"
