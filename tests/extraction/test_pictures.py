"""Frames as picture files."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image, features

from headrace.errors import BackendError, ConfigError
from headrace.extraction.pictures import FORMATS, Pictures

FRAME = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_holds_the_picture_and_is_the_same_again(format):
    pictures = Pictures(format=format)
    pictures.check()
    file = pictures.encode(FRAME)
    with Image.open(BytesIO(file)) as picture:
        assert (picture.format, picture.size) == (
            {"jpg": "JPEG"}.get(format, format.upper()),
            (60, 40),
        )
        found = np.asarray(picture.convert("RGB"))
    if format == "png":
        assert np.array_equal(found, FRAME)
    assert pictures.encode(FRAME.copy()) == file


@pytest.mark.parametrize("format", ["jpg", "webp", "avif"])
def test_a_higher_quality_is_a_larger_file(format):
    low, high = (Pictures(format=format, quality=q).encode(FRAME) for q in (10, 95))
    assert len(low) < len(high)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"format": "gif"}, "no format 'gif'; there is png, jpg, webp, avif"),
        ({"quality": 80}, "png loses nothing, so it has no quality"),
        ({"format": "jpg", "quality": 0}, "quality must be from 1 to 100, got 0"),
        ({"format": "jpg", "quality": 101}, "quality must be from 1 to 100, got 101"),
        ({"size": (0, 10)}, "size is"),
        ({"prefix": "a/b"}, "a prefix is the beginning of a file name"),
        ({"prefix": "a\n"}, "a prefix is the beginning of a file name"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        Pictures(**given)


def test_a_frame_too_large_for_its_format_is_refused_before_the_work():
    with pytest.raises(
        ConfigError, match="webp takes 16383 pixels a side; choose a smaller --size"
    ):
        Pictures(format="webp").check_size((10, 20_000), "a.mp4")
    Pictures(format="jpg").check_size((10, 20_000), "a.mp4")


def test_what_pillow_refuses_is_an_error_of_ours():
    with pytest.raises(ConfigError, match="cannot be made a picture of webp"):
        Pictures(format="webp").encode(np.zeros((1, 20_000, 3), np.uint8))


def test_a_pillow_without_the_format_says_what_to_do(monkeypatch):
    monkeypatch.setattr(features, "check", lambda name: name != "avif")
    with pytest.raises(BackendError, match="built without it; install Pillow from PyPI"):
        Pictures(format="avif").check()
    Pictures(format="png").check()
