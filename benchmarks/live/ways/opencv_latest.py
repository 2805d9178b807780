"""A thread that reads, and a queue that holds the newest frame: the recipe most often given.

    if not q.empty():
        q.get_nowait()  # discard the previous, unprocessed frame
    q.put(frame)

https://stackoverflow.com/a/54755738
"""

from contextlib import suppress
from queue import Empty, Queue
from typing import Any

from benchmarks.live.ways import Stream, reading
from benchmarks.live.ways.opencv_loop import PACKAGES

__all__ = ["PACKAGES", "run"]


def run(stream: Stream) -> dict[str, Any]:
    """See `Way.run`."""
    frames: Queue[Any] = Queue()

    def put(frame: Any) -> None:
        if not frames.empty():
            with suppress(Empty):
                frames.get_nowait()
        frames.put(frame)

    reading.show_from(frames, stream, put)
    return {}
