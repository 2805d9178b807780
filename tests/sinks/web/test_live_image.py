"""The live picture: made when somebody asks, once for everybody, no more often than said."""

import asyncio
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from headrace.sinks import latest_images as gallery
from headrace.sinks.latest_images import mosaic
from headrace.sinks.web.live_image import LiveImage, interval_seconds
from headrace.testing.fake_clock import FakeClock
from sinks.made import DOG, found_frames, seen_frames


class Door(LiveImage):
    """The pictures of one door, by a clock that is set by hand."""

    def __init__(self, rate=15.0):
        self.clock = FakeClock(now_ns=1_000_000_000)
        super().__init__(("door",), self.clock, rate)

    def show_grey(self, height=36, width=64):
        seen = seen_frames(7, 1)
        batch = replace(seen.batch, frames=np.full((1, height, width, 3), 96, np.uint8))
        self.show(replace(seen, batch=batch))
        return batch.frames

    def asked(self, *numbers):
        """What somebody gets who asks for what comes behind these, one after the other."""

        async def look():
            return [await self.next(number, 30.0) for number in numbers]

        return asyncio.run(look())


@pytest.fixture
def made(monkeypatch) -> list[int]:
    """How many tiles each picture that was made had."""
    counts: list[int] = []

    def counted(tiles):
        counts.append(len(tiles))
        return mosaic(tiles)

    monkeypatch.setattr(gallery, "mosaic", counted)
    return counts


def test_many_who_look_get_fewer_pictures_each():
    found = [interval_seconds(viewers, 15) for viewers in (1, 10, 15, 50, 300)]
    assert found == [1 / 15, 1 / 15, 0.1, 1 / 3, 2]


def test_nothing_is_encoded_while_nobody_looks(made):
    door = Door()
    for _ in range(10):
        door.show_grey()
    assert made == []


def test_fifty_who_look_cost_one_encoding_a_picture(made):
    async def look():
        door = Door()
        coming = [asyncio.create_task(door.next(0, 30.0)) for _ in range(50)]
        await asyncio.sleep(0)
        door.show_grey()
        return await asyncio.gather(*coming)

    assert [picture.number for picture in asyncio.run(look())] == [1] * 50
    assert made == [1]


def test_who_was_slow_gets_the_newest_and_a_new_one_no_earlier_than_due(made):
    door = Door(1e6)
    for _ in range(5):
        door.show_grey()
    [first] = door.asked(0)
    door.clock.advance(1)
    door.show_grey(18, 32)
    [second] = door.asked(first.number)
    assert (first.number, second.number, len(made)) == (5, 6, 2)
    with Image.open(io.BytesIO(second.jpeg)) as image:
        assert image.size == (32, 18)


def test_a_picture_that_was_just_made_serves_who_comes_a_moment_later(made):
    door = Door(1e9)
    door.show_grey()
    first, second = door.asked(0, 0)
    assert first is second
    assert made == [1]


def test_a_number_of_an_earlier_run_gets_the_newest_and_the_frame_may_be_used_again():
    """A batch is given back as soon as the sinks have seen it."""
    door = Door()
    door.show_grey()[:] = 255
    [picture] = door.asked(5000)
    assert picture.number == 1
    with Image.open(io.BytesIO(picture.jpeg)) as image:
        assert abs(image.convert("L").getpixel((32, 30)) - 96) <= 2


def test_boxes_are_drawn_on_the_live_picture():
    door = Door()
    door.show(found_frames(7, 1))
    [picture] = door.asked(0)
    pixels = np.asarray(Image.open(io.BytesIO(picture.jpeg)))
    left, top, right, bottom = map(round, DOG)
    assert pixels[bottom, left : right + 1].max(axis=1).min() > 60
    assert pixels[(top + bottom) // 2, right + 4 :].max() < 30
