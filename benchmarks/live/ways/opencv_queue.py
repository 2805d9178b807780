"""A thread that reads into a queue: `FileVideoStream` of imutils, `CamGear` of vidgear.

The queue holds 96 frames, as vidgear's does, and waits when it is full.
"""

from queue import Queue
from typing import Any

from benchmarks.live.ways import Stream, reading
from benchmarks.live.ways.opencv_loop import PACKAGES

__all__ = ["PACKAGES", "run"]

_ROOM = 96


def run(stream: Stream) -> dict[str, Any]:
    """See `Way.run`."""
    frames: Queue[Any] = Queue(maxsize=_ROOM)
    reading.show_from(frames, stream, frames.put)
    return {}
