"""A turn of a live flow, measured once it has settled: what came out, how late, what was lost.

It is kept as the few figures that experiments compare; the definitions are those of every report.
"""

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.measuring.interleaved import Turn


class LiveTurn(Turn):
    """What a flow came to; frames of the beginning left out. Times are milliseconds."""

    results: NonNegativeInt
    """Batches that came out; percentiles are over these."""
    delivered: NonNegativeInt
    """Frames that came out."""
    dropped: dict[str, NonNegativeInt]
    """"cause at stage" -> frames that ended there."""
    fps: NonNegativeFloat
    """Frames ÷ time from the first output to the last; 0 where fewer than two came."""
    service_p50: NonNegativeFloat | None
    """Work on a batch, waits left out."""
    latency_p50: NonNegativeFloat | None
    """From when the newest frame of a batch was due; None at full speed, where there is none."""
    latency_p95: NonNegativeFloat | None
    """None too where batches are too few for it."""
    jitter: NonNegativeFloat | None
    """Standard deviation of the intervals between outputs."""
    fps_cv: NonNegativeFloat | None
    """Std ÷ mean of the frames per second; None below ten whole seconds."""
    per_second: tuple[NonNegativeInt, ...]
    """Frames that came out in each whole second."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage -> mean work on a batch."""

    @property
    def drop_share(self) -> float:
        """Dropped ÷ (delivered + dropped), in [0, 1]."""
        dropped = sum(self.dropped.values())
        return dropped / (self.delivered + dropped) if dropped else 0.0

    @property
    def cores(self) -> float:
        """Processor time ÷ wall time: 1 is one core busy throughout."""
        return self.cpu_seconds / self.seconds
