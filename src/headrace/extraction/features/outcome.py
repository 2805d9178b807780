"""What came of a chunk, without its features: what a run needs to know of those before it."""

from dataclasses import dataclass

from headrace.extraction.features.result import ChunkResult, Lost
from headrace.records import recorded


@recorded
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a chunk, without its features."""

    came: int
    """Samples that have one."""
    lost: tuple[Lost, ...] = ()
    concealed: tuple[int, ...] = ()
    """First frames of samples that are damaged, and were taken as FFmpeg shows them."""

    @classmethod
    def of(cls, result: ChunkResult) -> "Outcome":
        """Return the outcome that a result tells of."""
        samples = result.samples
        return cls(
            came=len(samples),
            lost=result.lost,
            concealed=tuple(samples.index[samples.is_concealed].tolist()),
        )
