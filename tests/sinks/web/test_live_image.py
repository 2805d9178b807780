"""The live image: encoded on request, once for all browsers, at a limited rate."""

import asyncio
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from headrace.sinks import painting
from headrace.sinks.painting import mosaic
from headrace.sinks.web.web_sink import LiveImage, interval_seconds
from headrace.testing.fake_clock import FakeClock
from sinks.made import DOG, frames_with_boxes, labelled_frames


class FakeLiveImage(LiveImage):
    """Live image of one source, with a fake clock."""

    def __init__(self, rate=15.0):
        self.clock = FakeClock(now_ns=1_000_000_000)
        super().__init__(("door",), self.clock, rate)

    def show_grey(self, height=36, width=64):
        results = labelled_frames(7, 1)
        batch = replace(results.batch, frames=np.full((1, height, width, 3), 96, np.uint8))
        self.show(replace(results, batch=batch))
        return batch.frames

    def fetch(self, *numbers):
        """Return an image newer than each number, one after another."""

        async def fetch():
            return [await self.next(number, 30.0) for number in numbers]

        return asyncio.run(fetch())


@pytest.fixture
def tile_counts(monkeypatch) -> list[int]:
    """Return the list of the tile counts of all encoded images."""
    counts: list[int] = []

    def count_tiles(tiles):
        counts.append(len(tiles))
        return mosaic(tiles)

    monkeypatch.setattr(painting, "mosaic", count_tiles)
    return counts


def test_many_browsers_receive_fewer_images_each():
    intervals = [interval_seconds(viewers, 15) for viewers in (1, 10, 15, 50, 300)]
    assert intervals == [1 / 15, 1 / 15, 0.1, 1 / 3, 2]


def test_nothing_is_encoded_without_a_browser(tile_counts):
    live_image = FakeLiveImage()
    for _ in range(10):
        live_image.show_grey()
    assert tile_counts == []


def test_an_image_for_fifty_browsers_is_encoded_once(tile_counts):
    async def fetch():
        live_image = FakeLiveImage()
        tasks = [asyncio.create_task(live_image.next(0, 30.0)) for _ in range(50)]
        await asyncio.sleep(0)
        live_image.show_grey()
        return await asyncio.gather(*tasks)

    assert [image.number for image in asyncio.run(fetch())] == [1] * 50
    assert tile_counts == [1]


def test_a_slow_browser_receives_the_latest_image(tile_counts):
    live_image = FakeLiveImage(1e6)
    for _ in range(5):
        live_image.show_grey()
    [first] = live_image.fetch(0)
    live_image.clock.advance(1)
    live_image.show_grey(18, 32)
    [second] = live_image.fetch(first.number)
    assert (first.number, second.number, len(tile_counts)) == (5, 6, 2)
    with Image.open(io.BytesIO(second.jpeg)) as image:
        assert image.size == (32, 18)


def test_a_recent_image_is_reused_for_a_later_browser(tile_counts):
    live_image = FakeLiveImage(1e9)
    live_image.show_grey()
    first, second = live_image.fetch(0, 0)
    assert first is second
    assert tile_counts == [1]


def test_a_number_of_an_earlier_run_gives_the_latest_image_of_a_copied_frame():
    """The memory of a batch is reused after `show`."""
    live_image = FakeLiveImage()
    live_image.show_grey()[:] = 255
    [jpeg] = live_image.fetch(5000)
    assert jpeg.number == 1
    with Image.open(io.BytesIO(jpeg.jpeg)) as image:
        assert abs(image.convert("L").getpixel((32, 30)) - 96) <= 2


def test_boxes_are_drawn_on_the_live_image():
    live_image = FakeLiveImage()
    live_image.show(frames_with_boxes(7, 1))
    [image] = live_image.fetch(0)
    pixels = np.asarray(Image.open(io.BytesIO(image.jpeg)))
    left, top, right, bottom = map(round, DOG)
    assert pixels[bottom, left : right + 1].max(axis=1).min() > 60
    assert pixels[(top + bottom) // 2, right + 4 :].max() < 30
