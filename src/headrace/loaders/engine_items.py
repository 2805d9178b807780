"""Items of a loader's engine: a decode job on its way, and packed frames for a batch."""

from dataclasses import dataclass, field
from typing import Any

from headrace.decode.packing import Packing
from headrace.loaders.job_decoder import Decoded
from headrace.planning.lookahead import GopJob
from headrace.runtime.fork_safety import ForkSafeLock


@dataclass(kw_only=True, eq=False)
class Decoding:
    """A decode job on its way, and the packed frames that it left."""

    job: GopJob
    packing: Packing | None
    """Codec of the frames of later batches; None: they wait as pixels."""
    permits: int
    """Bytes that were reserved for its frames."""
    packed: dict[int, bytes] = field(default_factory=dict)
    """View id → its packed pixels, of frames that later batches need."""
    is_done: bool = False
    _waiting: dict["Unpacking", list["Packed"]] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def finish(self) -> dict["Unpacking", list["Packed"]]:
        """Note that it is done; return the frames that waited for it, and forget them.

        It lives until its last frame is delivered: it must not keep the batches of others.
        """
        with self._lock:
            self.is_done = True
            waiting, self._waiting = self._waiting, {}
            return waiting

    def defer(self, unpacking: "Unpacking", packed: "Packed") -> bool:
        """Let a frame wait for it unless it is done; return whether the frame waits."""
        with self._lock:
            if not self.is_done:
                self._waiting.setdefault(unpacking, []).append(packed)
            return not self.is_done


@dataclass(frozen=True, kw_only=True)
class Packed:
    """One packed frame."""

    frame: int
    """View id."""
    source: Decoding | None
    """The job that decodes it; without a job it is on the disk."""
    after: Decoding | None
    """The job that has to be done before it is there; None: it is there."""

    def waits(self, unpacking: "Unpacking") -> bool:
        """Return whether it is not there yet; then its job unpacks it when it is done."""
        return self.after is not None and self.after.defer(unpacking, self)


@dataclass(kw_only=True, eq=False)
class Unpacking:
    """Frames of a batch that are packed, in memory or on the disk."""

    frames: list[Packed]
    rows: dict[int, int]
    """View id → its row in the batch; without frames that are found to be in no row."""
    pixels: Any
    """[rows, H, W, 3]: memory of the batch."""
    decoded: Decoded = field(default_factory=Decoded)
    """Frames that the disk lost, decoded again."""
