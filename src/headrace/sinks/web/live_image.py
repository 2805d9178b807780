"""Live image: encoded on request, once for all browsers."""

import asyncio
import io
from dataclasses import dataclass
from typing import Any, Final

from headrace.runtime.asgi_server import UpdateCounter
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.latest_images import LatestImages

MAX_IMAGES_PER_SECOND: Final = 150
"""Max images per second, over all browsers. Each holds the interpreter for about 0.5 ms. Fifty
browsers get three images per second each."""
_QUALITY: Final = 80


def interval_seconds(viewers: int, images_per_second: float) -> float:
    """Return the time between images, for a number of browsers."""
    return max(1 / images_per_second, viewers / MAX_IMAGES_PER_SECOND)


@dataclass(frozen=True)
class JpegImage:
    """JPEG with its number; browsers request an image newer than this number."""

    number: int
    jpeg: bytes


class LiveImage:
    """Live image: frames come from the run's thread, images are encoded in the server's thread.

    Without a browser, no image is encoded. A browser requests the next image when it has shown the
    last one, and receives the latest. Pushed images (multipart) would queue in socket buffers:
    2.8 MB per browser, about 20 images.
    """

    def __init__(self, names: tuple[str, ...], clock: Clock, images_per_second: float) -> None:
        """Start without frames; `names`: names of the sources, for captions."""
        self._latest_images = LatestImages(names, clock)
        self._clock = clock
        self._images_per_second = images_per_second
        self._newest = UpdateCounter()
        self._viewers = 0
        self._image = JpegImage(0, b"")
        self._due_ns = 0

    def show(self, results: BatchResults[Any]) -> None:
        """Keep the newest frame of a batch; copies it. From one thread."""
        self._latest_images.show(results)
        self._newest.increase()

    async def next(self, after: int, seconds: float) -> JpegImage | None:
        """Return an image newer than number `after`; None after `seconds` without one.

        For the server's thread. A number above the latest is from an earlier run.
        """
        after = 0 if after > self._newest.number else after
        self._viewers += 1
        try:
            if not await self._newest.wait(after, seconds):
                return None
            # All waiting browsers get the same image at the same time.
            await asyncio.sleep(max(0, self._due_ns - self._clock.now_ns()) / 1e9)
            return self._encode(after)
        finally:
            self._viewers -= 1

    def close(self) -> None:
        """End the wait of every browser: no frame follows."""
        self._newest.close()

    def _encode(self, after: int) -> JpegImage:
        """Return a new image, or the one just encoded for another browser."""
        now_ns = self._clock.now_ns()
        if self._image.number > after and now_ns < self._due_ns:
            return self._image
        pause = interval_seconds(self._viewers, self._images_per_second)
        self._due_ns = now_ns + round(pause * 1e9)
        number, file = self._newest.number, io.BytesIO()
        self._latest_images.image().save(file, "JPEG", quality=_QUALITY)
        self._image = JpegImage(number, file.getvalue())
        return self._image
