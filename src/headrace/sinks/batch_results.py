"""What a model saw in a batch: what sinks take."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from headrace.models.results import Boxes, Labels
from headrace.video.frames import FrameBatch

Taken = TypeVar("Taken", contravariant=True)


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """When a frame of a live source came, which its pts do not tell: they begin anew."""

    segment: int
    """Timeline of the source that its pts counts on, from 0; a reconnection begins the next one."""
    arrival_time: datetime
    """UTC, by this machine's clock as it was at the start of the run; of a file that is played,
    when the frame was due."""
    capture_time: datetime | None
    """UTC, by the sender's clock; None where it tells none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifiedBatch:
    """A batch and what the model saw in it."""

    batch: FrameBatch
    labels: Labels
    arrival: Arrival | None = None
    """Of the frame, in a live run, whose batches hold one; None at full speed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectedBatch:
    """A batch and what a detector found in it, and where."""

    batch: FrameBatch
    boxes: Boxes
    arrival: Arrival | None = None
    """As of `ClassifiedBatch`."""


def result_batch(
    batch: FrameBatch, result: Labels | Boxes, arrival: Arrival | None = None
) -> ClassifiedBatch | DetectedBatch:
    """Return a batch with what a model gave for it."""
    if isinstance(result, Boxes):
        return DetectedBatch(batch=batch, boxes=result, arrival=arrival)
    return ClassifiedBatch(batch=batch, labels=result, arrival=arrival)


class SinkOf(Protocol[Taken]):
    """Takes results of one kind, in order, from one thread."""

    def write(self, seen: Taken) -> None:
        """Take one batch.

        Raises:
            ConfigError: it cannot be written.
        """
        ...

    def close(self) -> None:
        """Finish what was written; harmless when called again."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the files it has written, in its folder."""
        ...


Sink = SinkOf[ClassifiedBatch]
"""Takes the labels of batches."""
