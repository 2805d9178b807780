"""Image files of frames, and their names."""

from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from headrace.errors import BackendError
from headrace.extraction.extraction_plan import video_names
from headrace.extraction.image_encoder import FORMATS, ImageEncoder, image_name

FRAME = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_encodes_a_frame_deterministically(format):
    encoder = ImageEncoder(format=format)
    encoder.check()
    content = encoder.encode(FRAME)
    with Image.open(BytesIO(content)) as image:
        name = "JPEG" if format == "jpg" else format.upper()
        assert (image.format, image.size) == (name, (60, 40))
        if format == "png":
            assert np.array_equal(np.asarray(image.convert("RGB")), FRAME)
    assert encoder.encode(FRAME.copy()) == content


@pytest.mark.parametrize("format", ["jpg", "webp", "avif"])
def test_a_higher_quality_gives_a_larger_file(format):
    low, high = (ImageEncoder(format=format, quality=q).encode(FRAME) for q in (10, 95))
    assert len(low) < len(high)


def test_jpeg_supports_frames_too_large_for_webp():
    ImageEncoder(format="jpg").check_size((10, 20_000), "a.mp4")


def test_the_error_of_a_pillow_without_the_format_has_advice(monkeypatch):
    monkeypatch.setattr(features, "check", lambda name: name != "avif")
    with pytest.raises(BackendError, match="built without avif; install Pillow from PyPI"):
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
def test_videos_of_one_stem_have_different_names(paths, names):
    assert video_names([Path(path) for path in paths]) == names


def test_long_names_are_truncated_and_stay_unique():
    names = video_names([Path("/data") / f"{'é' * 100}{number}.mp4" for number in (1, 2)])
    assert len(set(names)) == 2
    assert all(len(name.encode()) <= 130 for name in names)


def test_image_names_have_index_and_time_and_sort_in_order():
    shots = ImageEncoder(prefix="shot_")
    names = [image_name(shots, "a", n, Fraction(n, 25), 1_000_000) for n in (7, 100)]
    assert names == ["shot_a_000007_0.280s.png", "shot_a_000100_4.000s.png"] == sorted(names)
    jpg = ImageEncoder(format="jpg")
    assert image_name(jpg, "a", 7, Fraction(0), 10_000_001) == "a_00000007_0.000s.jpg"
