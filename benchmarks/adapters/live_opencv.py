"""A stream shown by OpenCV, in the loops that people write: opened again when it is lost.

Tutorials stop when reading fails; here it opens the stream again after a second.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from time import sleep
from typing import Any

import cv2

from benchmarks.live.serving import Stream

PACKAGES = ("opencv-python-headless", "torch")
_PAUSE_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_JOIN_SECONDS = 5.0
_ROOM = 96


def loop(stream: Stream) -> dict[str, Any]:
    """The plain loop of every tutorial: read a frame, run the model, show it, read the next one.

    cap = cv2.VideoCapture(url)
    while True:
        ok, frame = cap.read()
        if not ok: break
    """
    for frame in _frames(stream):
        _show(frame, stream)
    return {}


def latest(stream: Stream) -> dict[str, Any]:
    """A thread that reads, and a queue that holds the newest frame: the recipe most often given.

    if not q.empty():
        q.get_nowait()  # discard the previous, unprocessed frame
    q.put(frame)

    https://stackoverflow.com/a/54755738
    """
    frames: Queue[Any] = Queue()

    def put(frame: Any) -> None:
        if not frames.empty():
            with suppress(Empty):
                frames.get_nowait()
        frames.put(frame)

    return _show_from(frames, stream, put)


def queue(stream: Stream) -> dict[str, Any]:
    """A thread that reads into a queue: `FileVideoStream` of imutils, `CamGear` of vidgear.

    The queue holds 96 frames, as vidgear's does, and waits when it is full.
    """
    frames: Queue[Any] = Queue(maxsize=_ROOM)
    return _show_from(frames, stream, frames.put)


WAYS = {"opencv_loop": loop, "opencv_latest": latest, "opencv_queue": queue}


def _show_from(
    frames: "Queue[Any]", stream: Stream, put: Callable[[Any], object]
) -> dict[str, Any]:
    """Read by a thread that gives each frame to `put`, and show what comes out of the queue."""

    def read() -> None:
        for frame in _frames(stream):
            put(frame)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while not stream.is_over:
        with suppress(Empty):
            _show(frames.get(timeout=_LOOK_SECONDS), stream)
    reader.join(_JOIN_SECONDS)
    return {}


def _frames(stream: Stream) -> Iterator[Any]:
    """Yield what is read until it is over; a stream that is lost is opened again after a second."""
    capture = cv2.VideoCapture(stream.url)
    while not stream.is_over:
        is_there, frame = capture.read()
        if is_there:
            yield frame
            continue
        stream.note("lost")
        capture.release()
        sleep(_PAUSE_SECONDS)
        capture = cv2.VideoCapture(stream.url)
    capture.release()


def _show(frame: Any, stream: Stream) -> None:
    stream.net.answer(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)[None])
    stream.show(frame)
