"""What a loader did and what it cost, as a value."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headrace.decode.device_scheduler import DeviceCounters
from headrace.decode.protocol import DecodeCounters
from headrace.runtime.synchronization import CapacityLimiter


@dataclass(frozen=True, kw_only=True)
class DeliveryStatistics:
    """Any loader from its creation until now, over all its epochs. Counts are exact."""

    frames_delivered: int
    """Frames handed to the training loop; a clip counts as its frames, a moment of several cameras
    as a frame of each. Empty slots are not counted."""
    frames_decoded: int
    """Frames the codec gave."""
    seeks: int
    """Jumps inside a file."""
    opens: int
    """Files opened, also again."""
    bytes_read: int
    """Bytes in the packets that were read."""
    starved_seconds: float
    """The training loop waited for a batch. Near the time of the loop: decoding is the slower side;
    look further ahead (more memory), use more cores, or smaller GOPs."""
    blocked_seconds: float
    """Decoding waited for room, because batches were not taken. Near the time of the loop: the
    model is the slower side, and nothing is gained by decoding faster."""
    decoded_by: DeviceCounters | None = None
    """What the CPU and the GPU did, and which files only the CPU decoded, and why; None unless
    decoding is `auto`."""

    @property
    def amplification(self) -> float:
        """Frames decoded ÷ frames delivered. Near 1 is as cheap as reading in order; less where a
        frame is delivered twice from one decoding; near half a GOP is naive random access."""
        return self.frames_decoded / self.frames_delivered if self.frames_delivered else 0.0


@dataclass(frozen=True, kw_only=True)
class LoaderStatistics(DeliveryStatistics):
    """What a loader of frames or clips did."""

    samples_substituted: int
    """Samples that were bad and replaced by rule."""
    videos_skipped: int
    """Videos that cannot be read at all."""
    frames_quarantined: int
    """Frames known to be bad, those of bad videos included."""
    held_bytes: int
    """Decoded frames that wait for their batch, and room promised to those being decoded."""
    most_held_bytes: int
    """The most it ever was. Near the budget: more memory would save decoding."""


Step = TypeVar("Step")
"""What an engine makes of one step, before it is a batch."""


class DecodingEngine(Protocol):
    """What decodes, as the loader counts it."""

    room: CapacityLimiter

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Running(Generic[Step]):
    """An engine at work. Its threads end when `steps` is closed, or forgotten."""

    engine: DecodingEngine
    steps: Generator[Step, None, None]


@dataclass(frozen=True, kw_only=True)
class DecodeTotals:
    """What decoding cost, over all engines so far."""

    decode_counters: DecodeCounters = field(default_factory=DecodeCounters)
    blocked_seconds: float = 0.0
    most_taken: int = 0
    """Places of `CapacityLimiter` that were in use at a time."""

    def with_engine(self, engine: DecodingEngine) -> "DecodeTotals":
        """Return this and what one more engine cost."""
        return DecodeTotals(
            decode_counters=self.decode_counters + engine.counters,
            blocked_seconds=self.blocked_seconds + engine.room.blocked_seconds,
            most_taken=max(self.most_taken, engine.room.most_taken),
        )
