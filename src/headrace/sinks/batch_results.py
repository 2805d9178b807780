"""Results of batches, and the protocol of their sinks."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from headrace.extraction.image_reader import ImageBatch
from headrace.models.results import Boxes, Labels
from headrace.video.frames import FrameBatch

OutputT = TypeVar("OutputT", Labels, Boxes)


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Arrival of a live frame; its pts alone are ambiguous after a reconnection."""

    segment: int
    """Number of the timeline of its pts, from 0; a reconnection starts the next timeline."""
    arrival_time: datetime
    """UTC: this machine's clock at the start of the run, plus the time since then; for a file in
    real time, the due time."""
    capture_time: datetime | None
    """UTC by the sender's clock; None if the sender sends no clock."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchResults(Generic[OutputT]):
    """Batch with the output of its model: labels or boxes."""

    batch: FrameBatch
    output: OutputT
    arrival: Arrival | None = None
    """Arrival of the frame in a live run, whose batches have one frame; else None."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the upright frames, pixels."""
        return self.batch.frames.shape[1], self.batch.frames.shape[2]

    def locations(self, sources: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield source, index, pts and pts_seconds of each frame.

        `pts` is in ticks of the video's time base, exact for joins. Images have only a source; the
        other values are None. Frames of a live run also have the fields of `Arrival`.

        Args:
            sources: Paths of the videos, or names of the live sources, by number.
        """
        batch, arrival = self.batch, {} if self.arrival is None else asdict(self.arrival)
        images = batch.pictures if isinstance(batch, ImageBatch) else None
        for k, seconds in enumerate(batch.pts_seconds.tolist()):
            source = sources[batch.video] if images is None else str(images[k].path)
            yield {
                # Undecodable bytes of a name are escaped, as in a session.
                "source": source.encode(errors="backslashreplace").decode(),
                "index": int(batch.index[k]) if images is None else None,
                "pts": int(batch.pts[k]) if images is None else None,
                "pts_seconds": round(seconds, 6) if images is None else None,
                **arrival,
            }


class ResultSink(Protocol):
    """Sink of results, in order, from one thread."""

    def write(self, results: Any) -> None:
        """Write one batch: `BatchResults` of labels or boxes.

        Raises:
            ConfigError: the file cannot be written.
        """
        ...

    def close(self) -> None:
        """Finish the files; idempotent."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of its files in the output folder."""
        ...
