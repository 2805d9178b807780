"""What each worker process of an extraction did, and what its chunks waited for."""

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record


class WorkerRecord(Record):
    """One process that extracts. Seconds are wall clock."""

    name: str
    steps: NonNegativeInt
    """That it finished."""
    frames: NonNegativeInt
    """In them: pictures, or samples that a feature was computed for."""
    busy_seconds: NonNegativeFloat
    """In the parts of its work, all steps added up."""
    queue_seconds: NonNegativeFloat = 0.0
    """That decoded samples waited until a batch was full, chunks added up; no time of the worker
    itself, which decodes on meanwhile."""
    span_seconds: NonNegativeFloat
    """From the beginning of its first step until the end of its last."""

    @property
    def throughput(self) -> float:
        """Frames per second of `span_seconds`; 0 where that is no time."""
        return self.frames / self.span_seconds if self.span_seconds else 0.0
