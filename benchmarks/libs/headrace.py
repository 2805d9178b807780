"""headrace: `read_frames`, which has its own threads and counts what it decodes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import headrace
from benchmarks.libs.adapter import Chunk

PACKAGES = ("headrace", "av")


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> "Reading":
    """Batches of the size it chooses, one video after the other."""
    return Reading(headrace.read_frames(paths, size=size, workers=workers))


class Reading:
    """The batches as chunks."""

    def __init__(self, reader: "headrace.FrameReader") -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Chunk]:
        for batch in self._reader:
            yield Chunk(batch.video, int(batch.index[0]), batch.frames)

    @property
    def decoded_frames(self) -> int:
        """Frames that the codec gave so far."""
        return self._reader.counters.frames_decoded
