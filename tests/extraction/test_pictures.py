"""Frames as picture files, and what they are called."""

from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from headrace.errors import BackendError
from headrace.extraction.image_encoder import FORMATS, ImageEncoder
from headrace.extraction.videos import image_name, video_names

FRAME = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_holds_the_picture_and_is_the_same_again(format):
    pictures = ImageEncoder(format=format)
    pictures.check()
    file = pictures.encode(FRAME)
    with Image.open(BytesIO(file)) as picture:
        name = "JPEG" if format == "jpg" else format.upper()
        assert (picture.format, picture.size) == (name, (60, 40))
        if format == "png":
            assert np.array_equal(np.asarray(picture.convert("RGB")), FRAME)
    assert pictures.encode(FRAME.copy()) == file


@pytest.mark.parametrize("format", ["jpg", "webp", "avif"])
def test_a_higher_quality_is_a_larger_file(format):
    low, high = (ImageEncoder(format=format, quality=q).encode(FRAME) for q in (10, 95))
    assert len(low) < len(high)


def test_a_frame_that_is_too_large_for_webp_is_none_for_jpeg():
    ImageEncoder(format="jpg").check_size((10, 20_000), "a.mp4")


def test_a_pillow_without_the_format_says_what_to_do(monkeypatch):
    monkeypatch.setattr(features, "check", lambda name: name != "avif")
    with pytest.raises(BackendError, match="built without it; install Pillow from PyPI"):
        ImageEncoder(format="avif").check()
    ImageEncoder(format="png").check()


NAMES = [
    (["/data/a.mp4", "/data/b.mp4"], ["a", "b"]),
    (["/data/x/a.mp4", "/data/y/a.mp4", "/data/b.mp4"], ["x_a", "y_a", "b"]),
    (["/data/x/1/a.mp4", "/data/y/1/a.mp4"], ["x_1_a", "y_1_a"]),
    (["/data/a.mp4", "/data/a.mkv"], ["data_a", "data_a-2"]),
    (["/x/a.mp4", "/y/a.mp4", "/y/x_a.mp4"], ["x_a", "y_a", "y_x_a"]),
]


@pytest.mark.parametrize(("paths", "names"), NAMES)
def test_videos_of_one_stem_are_told_apart(paths, names):
    assert video_names([Path(path) for path in paths]) == names


def test_a_long_name_is_cut_and_still_tells_videos_apart():
    names = video_names([Path("/data") / f"{'é' * 100}{number}.mp4" for number in (1, 2)])
    assert len(set(names)) == 2
    assert all(len(name.encode()) <= 130 for name in names)


def test_a_picture_is_named_by_index_and_time_with_digits_enough_to_sort():
    names = [image_name("shot_", "a", n, Fraction(n, 25), 1_000_000, "png") for n in (7, 100)]
    assert names == ["shot_a_000007_0.280s.png", "shot_a_000100_4.000s.png"] == sorted(names)
    assert image_name("", "a", 7, Fraction(0), 10_000_001, "jpg") == "a_00000007_0.000s.jpg"
