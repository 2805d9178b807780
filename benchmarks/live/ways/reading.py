"""OpenCV read by a thread: what the ways with a queue share."""

import threading
from collections.abc import Callable
from queue import Empty, Queue
from time import sleep
from typing import Any

import cv2

from benchmarks.live.ways import Stream
from benchmarks.live.ways.opencv_loop import PAUSE_SECONDS

_LOOK_SECONDS = 0.1
_JOIN_SECONDS = 5.0


def show_from(frames: "Queue[Any]", stream: Stream, put: Callable[[Any], object]) -> None:
    """Read by a thread that gives each frame to `put`, and show what comes out of the queue."""
    reader = threading.Thread(target=_read, args=(stream, put), daemon=True)
    reader.start()
    while not stream.is_over:
        try:
            frame = frames.get(timeout=_LOOK_SECONDS)
        except Empty:
            continue
        stream.net.answer(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)[None])
        stream.show(frame)
    reader.join(_JOIN_SECONDS)


def _read(stream: Stream, put: Callable[[Any], object]) -> None:
    capture = cv2.VideoCapture(stream.url)
    while not stream.is_over:
        is_there, frame = capture.read()
        if is_there:
            put(frame)
            continue
        stream.note("lost")
        capture.release()
        sleep(PAUSE_SECONDS)
        capture = cv2.VideoCapture(stream.url)
    capture.release()
