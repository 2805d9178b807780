"""headrace: `read_frames`, which has its own threads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import headrace
from benchmarks.libs.adapter import Chunk

PACKAGES = ("headrace", "av")


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> Iterator[Chunk]:
    """Batches of the size it chooses, one video after the other."""
    for batch in headrace.read_frames([str(path) for path in paths], size=size, workers=workers):
        yield Chunk(batch.video, int(batch.index[0]), batch.frames)
