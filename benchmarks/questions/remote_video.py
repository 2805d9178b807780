"""How long does one way to a video's bytes take, and what does FFmpeg ask of it?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame

from benchmarks.remote.readers import READERS, Calls
from benchmarks.resources import Meter

_PLACES = 16
_GOLDEN = 0.6180339887498949


def answer(*, way: str, path: str, url: str, pattern: str) -> dict[str, Any]:
    """Read a video: `scan` its packets, decode `every` frame, or some at `random` places.

    `checksum` is that of the brightness of what came, so that ways can be held against each other.
    """
    calls, meter = Calls(), Meter()
    frames = checksum = 0
    with READERS[way](Path(path), url, calls) as container:
        for found in _PATTERNS[pattern](container):
            frames += 1
            checksum = crc32(found, checksum)
        spent = meter.read()
    return {
        "repeat": {**spent, "frames": frames},
        "reads": calls.reads,
        "read_bytes": calls.read_bytes,
        "seeks": calls.seeks,
        "checksum": checksum,
    }


def _scanned(container: InputContainer) -> Iterator[bytes]:
    for packet in container.demux(video=0):
        if packet.size:
            yield packet.size.to_bytes(8, "big")


def _every(container: InputContainer) -> Iterator[bytes]:
    container.streams.video[0].thread_type = "AUTO"
    for frame in container.decode(video=0):
        yield _brightness(frame)


def _random(container: InputContainer) -> Iterator[bytes]:
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    assert stream.duration is not None
    for place in range(_PLACES):
        wanted = int((place * _GOLDEN % 1) * stream.duration * 0.99)
        container.seek(wanted, stream=stream)
        for frame in container.decode(stream):
            if frame.pts is not None and frame.pts + (frame.duration or 1) > wanted:
                yield _brightness(frame)
                break


def _brightness(frame: VideoFrame) -> bytes:
    """Return every 16th line: enough to tell frames apart, and cheap beside decoding."""
    plane = frame.planes[0]
    lines = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size)
    return bytes(lines[::16, : plane.width].tobytes())


_PATTERNS = {"scan": _scanned, "every": _every, "random": _random}
