"""Frames side by side in one image."""

import numpy as np
from PIL import Image

from headrace.report.image_grid import write_side_by_side

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
