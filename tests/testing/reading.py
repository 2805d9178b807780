"""What a linear decode of a file gives, despite errors."""

from pathlib import Path
from typing import NamedTuple

import av

from headrace.testing.synth import read_number
from media import read_packets, rgb


class Decoded(NamedTuple):
    """All frames of a file, and the number of decoding errors."""

    frames: list[av.VideoFrame]
    errors: int

    @property
    def numbers(self) -> list[int | None]:
        """The number of every frame; None if unreadable."""
        return [number_of(frame) for frame in self.frames]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Sizes in order, each once per run of frames."""
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
    """Return the number that a frame shows; None if unreadable."""
    try:
        return read_number(rgb(frame))
    except ValueError:
        return None


def keyframes_of(path: Path) -> list[int]:
    """Return the ordinals of packets marked as keyframes."""
    return [place for place, packet in enumerate(read_packets(path)) if packet.is_keyframe]
