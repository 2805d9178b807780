"""The live picture: made when somebody asks, once for everybody, no more often than said."""

import asyncio
import io

import numpy as np
import pytest
from PIL import Image

from headrace.sinks import gallery
from headrace.sinks.caption import Caption
from headrace.sinks.mosaic import mosaic
from headrace.sinks.web.pictures import Pictures, interval_seconds
from headrace.testing.fake_clock import FakeClock

CAPTION = Caption("street sign", "93%   #7")
LONG = 30.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(now_ns=1_000_000_000)


@pytest.fixture
def made(monkeypatch) -> list[int]:
    """How many tiles each picture that was made had."""
    found: list[int] = []

    def counted(tiles):
        found.append(len(tiles))
        return mosaic(tiles)

    monkeypatch.setattr(gallery, "mosaic", counted)
    return found


def grey(height: int = 36, width: int = 64) -> np.ndarray:
    return np.full((height, width, 3), 96, np.uint8)


def size(jpeg: bytes) -> tuple[int, int]:
    """(height, width)"""
    with Image.open(io.BytesIO(jpeg)) as image:
        return image.height, image.width


@pytest.mark.parametrize(
    ("viewers", "interval"), [(1, 1 / 15), (10, 1 / 15), (15, 0.1), (50, 1 / 3), (300, 2)]
)
def test_many_who_look_get_fewer_pictures_each(viewers, interval):
    assert interval_seconds(viewers, 15) == interval


def test_nothing_is_encoded_while_nobody_looks(clock, made):
    pictures = Pictures(("door",), clock, 15)
    for _ in range(10):
        pictures.show(0, grey(), CAPTION)
    assert made == []


def test_fifty_who_look_cost_one_encoding_a_picture(clock, made):
    async def look():
        pictures = Pictures(("door",), clock, 15)
        coming = [asyncio.create_task(pictures.next(0, LONG)) for _ in range(50)]
        await asyncio.sleep(0)
        pictures.show(0, grey(), CAPTION)
        return await asyncio.gather(*coming)

    found = asyncio.run(look())
    assert made == [1]
    assert [each.number for each in found] == [1] * 50


def test_who_was_slow_gets_the_newest_and_a_new_one_no_earlier_than_due(clock, made):
    async def look():
        pictures = Pictures(("door",), clock, 1e6)
        for _ in range(5):
            pictures.show(0, grey(), CAPTION)
        first = await pictures.next(0, LONG)
        clock.advance(1)
        pictures.show(0, grey(18, 32), CAPTION)
        return first, await pictures.next(first.number, LONG)

    first, second = asyncio.run(look())
    assert (first.number, second.number, len(made)) == (5, 6, 2)
    assert size(second.jpeg) == (18, 32)


def test_a_picture_that_was_just_made_serves_who_comes_a_moment_later(clock, made):
    async def look():
        pictures = Pictures(("door",), clock, 1e9)
        pictures.show(0, grey(), CAPTION)
        return [await pictures.next(0, LONG), await pictures.next(0, LONG)]

    first, second = asyncio.run(look())
    assert first is second
    assert made == [1]


def test_a_number_of_an_earlier_run_gets_the_newest(clock):
    async def look():
        pictures = Pictures(("door",), clock, 15)
        pictures.show(0, grey(), CAPTION)
        return await pictures.next(5000, LONG)

    assert asyncio.run(look()).number == 1


def test_the_frame_may_be_used_again(clock):
    """A batch is given back as soon as the sinks have seen it."""
    pictures, frame = Pictures(("door",), clock, 15), grey()
    pictures.show(0, frame, CAPTION)
    frame[:] = 255

    async def look():
        return await pictures.next(0, LONG)

    with Image.open(io.BytesIO(asyncio.run(look()).jpeg)) as image:
        assert abs(image.convert("L").getpixel((32, 30)) - 96) <= 2
