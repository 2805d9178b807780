"""Speed: from what a way of sampling decodes to frames per second on one machine."""

from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.sampling.costs import DecodeCost


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What one worker needs for videos of one kind, while all workers are busy."""

    seconds_per_seek: float
    """To enter a GOP: make a codec, seek, and open the file where it is not kept open."""
    seconds_per_decoded: float
    """To decode one more frame."""
    seconds_per_delivered: float
    """To make a decoded frame a small RGB one."""
    workers: int
    """Threads that decode at the same time."""
    droppable_share: float = 0.0
    """Share of frames, in [0, 1), that stay undecoded unless they are asked for themselves."""

    def __post_init__(self) -> None:
        seconds = (self.seconds_per_seek, self.seconds_per_decoded, self.seconds_per_delivered)
        if min(seconds) < 0 or sum(seconds) <= 0 or self.workers < 1:
            raise ConfigError(f"seconds must be >= 0, not all 0, and workers >= 1, got {self}")
        if not 0 <= self.droppable_share < 1:
            raise ConfigError(f"droppable_share must be in [0, 1), got {self.droppable_share}")

    def decoded(self, cost: DecodeCost) -> float:
        """Return the frames decoded per frame delivered, without those that may be left out.

        Of the frames that are passed and not delivered, the droppable ones are skipped: A - s(A-1)
        for an amplification A >= 1. Takes them to lie evenly, hence approximate.
        """
        passed = max(0.0, cost.amplification - 1)
        return cost.amplification - self.droppable_share * passed

    def throughput(self, cost: DecodeCost) -> float:
        """Return the frames delivered per second by all workers, when nothing else is slower."""
        # A frame that two slots want from one decoding is converted once.
        converted = min(1.0, cost.amplification)
        seconds = (
            self.seconds_per_seek * cost.seeks
            + self.seconds_per_decoded * self.decoded(cost)
            + self.seconds_per_delivered * converted
        )
        return self.workers / seconds
