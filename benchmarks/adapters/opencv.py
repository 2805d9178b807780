"""OpenCV: one capture per file and thread, and the scaler that its documentation names to shrink.

The default scaler, `linear`, is faster, but skips pixels when it shrinks. For random frames,
captures stay open; a capture seeks to each frame, or reads on if the frame is close. A live stream
is shown by common loops. Tutorials stop when a read fails; here the stream is reopened after a
second.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import cv2
from numpy.typing import NDArray

from benchmarks import adapters

if TYPE_CHECKING:
    from benchmarks.live.recovering import Player, Stream

PACKAGES = ("opencv-python-headless",)
CLOSE = 8
"""Max distance in frames at which reading on is faster than seeking."""
_PAUSE_SECONDS = 1.0
"""Pause before a failed stream is reopened."""
_POLL_SECONDS = 0.1
_JOIN_SECONDS = 5.0
_QUEUE_FRAMES = 96
SCALERS = {"area": cv2.INTER_AREA, "linear": cv2.INTER_LINEAR}


def decode(
    path: Path, size: tuple[int, int], scaler: Literal["area", "linear"] = "area"
) -> Iterator[adapters.Frames]:
    """Yield frames, with one decoding thread per capture."""
    cv2.setNumThreads(1)

    def pictures() -> Iterator[NDArray[Any]]:
        capture = _capture(path)
        while (read := capture.read())[0]:
            yield _small(read[1], size, SCALERS[scaler])
        capture.release()

    return adapters.in_chunks(pictures())


def _capture(path: Path) -> cv2.VideoCapture:
    return cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


def _small(full: Any, size: tuple[int, int], scaler: int = cv2.INTER_AREA) -> NDArray[Any]:
    small = cv2.resize(full, (size[1], size[0]), interpolation=scaler)
    rgb: NDArray[Any] = cv2.cvtColor(small, cv2.COLOR_BGR2RGB)
    return rgb


def reader(path: Path, size: tuple[int, int] | None = None) -> adapters.ReadFrames:
    """Return a reader with one decoding thread."""
    cv2.setNumThreads(1)
    source = _capture(path)

    def read(indices: Sequence[int]) -> Sequence[adapters.Frames]:
        position, frames = -1, list[NDArray[Any]]()
        for index in indices:
            if position < 0 or index - position > CLOSE:
                source.set(cv2.CAP_PROP_POS_FRAMES, index)
                position = index
            while position < index:
                source.grab()
                position += 1
            has_frame, full = source.read()
            if not has_frame:
                raise RuntimeError(f"OpenCV cannot read frame {index}")
            position += 1
            frames.append(_small(full, size) if size else cv2.cvtColor(full, cv2.COLOR_BGR2RGB))
        return frames

    return read


def loop(stream: "Stream") -> None:
    """Loop of tutorials: read a frame, run the model, show the frame, read the next one.

    cap = cv2.VideoCapture(url)
    while True:
        ok, frame = cap.read()
        if not ok: break
    """
    for frame in _read_on(stream):
        _show(frame, stream)


def latest(stream: "Stream") -> None:
    """Reader thread and a queue with the newest frame: the most common recipe.

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

    _show_from(frames, stream, put)


def queue(stream: "Stream") -> None:
    """Reader thread and a queue, like `FileVideoStream` of imutils and `CamGear` of vidgear.

    The queue holds 96 frames, like vidgear's, and blocks when it is full.
    """
    frames: Queue[Any] = Queue(maxsize=_QUEUE_FRAMES)
    _show_from(frames, stream, frames.put)


LIVE: Mapping[str, "Player"] = {"opencv_loop": loop, "opencv_latest": latest, "opencv_queue": queue}


def _show_from(frames: "Queue[Any]", stream: "Stream", put: Callable[[Any], object]) -> None:
    """Read in a thread that calls `put` with each frame; show the frames of the queue."""

    def read() -> None:
        for frame in _read_on(stream):
            put(frame)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while not stream.is_over:
        with suppress(Empty):
            _show(frames.get(timeout=_POLL_SECONDS), stream)
    reader.join(_JOIN_SECONDS)


def _read_on(stream: "Stream") -> Iterator[Any]:
    """Yield frames until the end; reopen a lost stream after a second."""
    capture = cv2.VideoCapture(stream.url)
    while not stream.is_over:
        has_frame, frame = capture.read()
        if has_frame:
            yield frame
        else:
            stream.note("lost")
            capture.release()
            sleep(_PAUSE_SECONDS)
            capture = cv2.VideoCapture(stream.url)
    capture.release()


def _show(frame: Any, stream: "Stream") -> None:
    stream.answer(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    stream.show(frame)
