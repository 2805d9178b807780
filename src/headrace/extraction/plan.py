"""What an extraction of any kind will do, found out before anything is decoded or written."""

from dataclasses import dataclass
from functools import cached_property

from headrace.extraction.request import Request
from headrace.video.loss import Loss
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtractionPlan:
    """Which videos, in which chunks; a class for each kind says which frames."""

    request: Request
    indexes: dict[int, StreamIndex]
    """Number of a video in the request → its frames; without those that cannot be opened."""
    chunks: tuple[object, ...]
    """In the order of the videos and their frames."""
    left_out: tuple[Loss, ...]
    """Videos that cannot be opened, or give nothing."""
    notes: tuple[str, ...]
    """What was decided, in words."""

    @cached_property
    def places(self) -> dict[int, int]:
        """Number of a video in the request → its place among those that could be opened."""
        return {number: place for place, number in enumerate(self.indexes)}
