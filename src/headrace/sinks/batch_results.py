"""Results of batches, and the protocol of their sinks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from headrace.models.results import Boxes, Labels
from headrace.video.frames import FrameBatch

ResultsT = TypeVar("ResultsT", contravariant=True)


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Arrival of a live frame; its pts alone are ambiguous after a reconnection."""

    segment: int
    """Timeline of its pts, from 0; a reconnection starts the next one."""
    arrival_time: datetime
    """UTC: this machine's clock at the start of the run, plus the time since then; for a file in
    real time, the due time."""
    capture_time: datetime | None
    """UTC by the sender's clock; None if the sender sends no clock."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifiedBatch:
    """A batch and its labels."""

    batch: FrameBatch
    labels: Labels
    arrival: Arrival | None = None
    """Arrival of the frame in a live run, whose batches have one frame; None at full speed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectedBatch:
    """A batch and its boxes."""

    batch: FrameBatch
    boxes: Boxes
    arrival: Arrival | None = None
    """See `ClassifiedBatch`."""


def result_batch(
    batch: FrameBatch, result: Labels | Boxes, arrival: Arrival | None = None
) -> ClassifiedBatch | DetectedBatch:
    """Return a batch with the results of its model."""
    if isinstance(result, Boxes):
        return DetectedBatch(batch=batch, boxes=result, arrival=arrival)
    return ClassifiedBatch(batch=batch, labels=result, arrival=arrival)


class SinkOf(Protocol[ResultsT]):
    """Sink of one kind of results, in order, from one thread."""

    def write(self, results: ResultsT) -> None:
        """Write one batch.

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


Sink = SinkOf[ClassifiedBatch]
"""Sink of labels."""
