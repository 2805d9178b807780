"""What a plain reading finds in a file, whatever errors come between."""

from pathlib import Path
from typing import NamedTuple

import av

from headrace.testing.synth import read_number
from media import read_packets, rgb


class Decoded(NamedTuple):
    """All frames that come out, and how often decoding complains."""

    frames: list[av.VideoFrame]
    errors: int

    @property
    def numbers(self) -> list[int | None]:
        """The number of every frame; None where none can be read."""
        return [number_of(frame) for frame in self.frames]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Sizes in the order they come, each once for a run of frames."""
        sizes = [(frame.height, frame.width) for frame in self.frames]
        return [size for place, size in enumerate(sizes) if place == 0 or sizes[place - 1] != size]


def decode(path: Path, stream: int = 0) -> Decoded:
    """Return every frame of a stream."""
    frames: list[av.VideoFrame] = []
    errors = 0
    with av.open(str(path)) as container:
        for packet in container.demux(video=stream):
            try:
                frames += packet.decode()
            except av.error.InvalidDataError:
                errors += 1
    return Decoded(frames, errors)


def number_of(frame: av.VideoFrame) -> int | None:
    """Return the number that a frame carries; None where none can be read."""
    try:
        return read_number(rgb(frame))
    except ValueError:
        return None


def keyframes_of(path: Path) -> list[int]:
    """Return the ordinals of packets that are flagged as keyframes."""
    return [place for place, packet in enumerate(read_packets(path)) if packet.is_keyframe]
