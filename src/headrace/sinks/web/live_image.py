"""The live picture: made when somebody asks, once for all who do."""

import asyncio
import io
from dataclasses import dataclass
from typing import Final

from headrace.runtime.clock import Clock
from headrace.runtime.latest_value import LatestValue
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch
from headrace.sinks.latest_images import LatestImages

PICTURES_IN_ALL: Final = 150
"""Most pictures per second to all browsers together. Each costs the interpreter about 0.5 ms that
inference would have: fifty browsers get three pictures a second each, and not fifteen."""
_QUALITY: Final = 80


def interval_seconds(viewers: int, pictures_per_second: float) -> float:
    """Return the time from one picture to the next, for so many who look."""
    return max(1 / pictures_per_second, viewers / PICTURES_IN_ALL)


@dataclass(frozen=True)
class Picture:
    """One JPEG, and how to ask for a newer one."""

    number: int
    jpeg: bytes


class LiveImage:
    """Takes frames from the run's thread, gives pictures in the server's.

    Nothing is encoded while nobody looks. A browser asks for its next picture when it has the last
    one, so that it gets as many as it can take, each as new as it can be. Pictures that are pushed
    (multipart) would pile up in the system's buffers: 2.8 MB for each browser, some 20 pictures.
    """

    def __init__(self, names: tuple[str, ...], clock: Clock, pictures_per_second: float) -> None:
        """No frame has come; `names` are those of the sources, for a reader."""
        self._gallery = LatestImages(names, clock)
        self._clock = clock
        self._pictures_per_second = pictures_per_second
        self._newest: LatestValue[int] = LatestValue()
        self._viewers = 0
        self._made = Picture(0, b"")
        self._due_ns = 0

    def show(self, seen: ClassifiedBatch | DetectedBatch) -> None:
        """Take the newest frame of a batch; copies it. From one thread."""
        self._gallery.show(seen)
        self._newest.put(seen.batch.video)

    async def next(self, after: int, seconds: float) -> Picture | None:
        """Return one that is newer than number `after`; None when none came in `seconds`.

        For the server's thread. A number that has not come yet is one of an earlier run.
        """
        after = 0 if after > self._newest.number else after
        self._viewers += 1
        try:
            if not await self._newest.wait(after, seconds):
                return None
            # Everybody who waits gets the same picture at the same time.
            await asyncio.sleep(max(0, self._due_ns - self._clock.now_ns()) / 1e9)
            return self._make(after)
        finally:
            self._viewers -= 1

    def close(self) -> None:
        """No frame comes any more: who waits for one goes away."""
        self._newest.close()

    def _make(self, after: int) -> Picture:
        """One that was made a moment ago for somebody else, or a new one."""
        now_ns = self._clock.now_ns()
        if self._made.number > after and now_ns < self._due_ns:
            return self._made
        pause = interval_seconds(self._viewers, self._pictures_per_second)
        self._due_ns = now_ns + round(pause * 1e9)
        number, file = self._newest.number, io.BytesIO()
        self._gallery.picture().save(file, "JPEG", quality=_QUALITY)
        self._made = Picture(number, file.getvalue())
        return self._made
