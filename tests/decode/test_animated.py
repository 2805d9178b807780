"""Animated pictures are videos; others are not."""

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.errors import OpenError

COUNT = 20


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(number: int) -> np.ndarray:
    """Return few colours, as GIF has: a block that moves and brightens."""
    pixels = np.full((48, 64, 3), 30, np.uint8)
    pixels[number : number + 10, 2 * number : 2 * number + 12] = [number * 10, 200, 50]
    return pixels


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
@pytest.mark.parametrize("disposal", [1, 2])
def test_any_frame_is_the_one_that_is_shown(tmp_path, name, disposal):
    first, *others = [Image.fromarray(picture(number)) for number in range(COUNT)]
    times = [50, 100] * (COUNT // 2)
    how = {"disposal": disposal} if name == "a.gif" else {}
    first.save(tmp_path / name, save_all=True, append_images=others, duration=times, **how)
    with headrace.open(tmp_path / name) as reader:
        assert len(reader) == COUNT
        wanted = [15, 3, 19, 0]
        assert np.array_equal(reader[wanted], np.stack([picture(number) for number in wanted]))
        assert reader.at([0.02, 0.06, 0.16]).index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_still_picture_is_no_video(tmp_path, name):
    Image.fromarray(picture(0)).save(tmp_path / name)
    with pytest.raises(OpenError, match=r"it is a (PNG|JPEG) picture, not a video"):
        headrace.open(tmp_path / name)
