"""One row of a table of features: what came of one chunk, and of which video."""

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Final, Literal

from headrace.extraction.features.result import ChunkResult, Lost, Made, Samples, Times

TIMED: Final = tuple(each.name for each in fields(Times))
"""What a chunk spends its time on; each is a column."""


@dataclass(frozen=True, kw_only=True)
class VideoName:
    """Which video a row is of."""

    name: str
    """What it is called in the folder; no two videos of a folder are called the same."""
    path: str
    """Where it lay."""
    content: str | None
    """`sha256:…` of the file, as `sha256sum` has it; None: pictures in a folder, or it could not be
    read."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureRow:
    """Features of one chunk, where they come from, and how they were made."""

    chunk_id: str
    """Name of the chunk; no two rows of a folder that are done have the same."""
    video: VideoName
    size: tuple[int, int]
    """(height, width) of the video, upright."""
    time_base: Fraction
    """Seconds of a tick."""
    samples: Samples
    """Those that came, ascending."""
    lost: tuple[Lost, ...] = ()
    """Those that did not."""
    error: str | None = None
    """Why the chunk failed as a whole; then it has no samples."""
    made: Made = field(default_factory=Made)
    """Read back, it does not tell when the chunk was begun and ended."""

    @property
    def status(self) -> Literal["done", "failed"]:
        """Whether it was done, whatever was lost."""
        return "done" if self.error is None else "failed"


def row_of_result(result: ChunkResult, video: VideoName) -> FeatureRow:
    """Return the row of what came of a chunk of `video`."""
    return FeatureRow(
        chunk_id=result.chunk.name,
        video=video,
        size=result.size,
        time_base=result.time_base,
        samples=result.samples,
        lost=result.lost,
        error=result.error,
        made=result.made,
    )
