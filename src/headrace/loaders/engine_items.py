"""Tasks of a loader's engine: decode a GOP job, or unpack frames of a batch."""

from dataclasses import dataclass, field
from typing import Any

from headrace.decode.packing import Packing
from headrace.loaders.job_decoder import Decoded
from headrace.planning.lookahead import GopJob
from headrace.runtime.fork_safety import ForkSafeLock


@dataclass(kw_only=True, eq=False)
class DecodeTask:
    """A decode job and its packed frames, which live until the last one is delivered."""

    job: GopJob
    packing: Packing | None
    """Codec of the frames of later batches; None: they wait as pixels."""
    permits: int
    """Bytes reserved for its frames."""
    packed: dict[int, bytes] = field(default_factory=dict)
    """View id → packed pixels, for frames that later batches need."""
    is_done: bool = False
    _deferred: dict["UnpackTask", list["PackedFrame"]] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def finish(self) -> dict["UnpackTask", list["PackedFrame"]]:
        """Mark the job as done; remove and return the frames that were deferred.

        The job outlives their batches, so it must not reference them.
        """
        with self._lock:
            self.is_done = True
            deferred, self._deferred = self._deferred, {}
            return deferred

    def defer(self, task: "UnpackTask", frame: "PackedFrame") -> bool:
        """Defer a frame until the job is done; return False if it is done already."""
        with self._lock:
            if not self.is_done:
                self._deferred.setdefault(task, []).append(frame)
            return not self.is_done


@dataclass(frozen=True, kw_only=True)
class PackedFrame:
    """One packed frame."""

    frame: int
    """View id."""
    source: DecodeTask | None
    """Job that decodes it; None: it is on the disk."""
    after: DecodeTask | None
    """Job that must be done before the frame can be unpacked; None: it can be now."""

    def defer(self, task: "UnpackTask") -> bool:
        """Leave the frame to its job's thread if the job is not done; return whether it is left."""
        return self.after is not None and self.after.defer(task, self)


@dataclass(kw_only=True, eq=False)
class UnpackTask:
    """Packed frames of a batch, in memory or on the disk."""

    frames: list[PackedFrame]
    rows: dict[int, int]
    """View id → its row in the batch, for frames that are written there."""
    pixels: Any
    """[rows, H, W, 3]: memory of the batch."""
    decoded: Decoded = field(default_factory=Decoded)
    """Frames that were missing on the disk, decoded again."""
