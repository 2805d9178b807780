"""Memory of a loop over its steps: its growth, and the tensors that the loop keeps."""

import gc
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

import psutil
import torch

_INTERVAL_NS: Final = 100_000_000
"""Min nanoseconds between two readings."""
_MAX_READINGS: Final = 1_000
"""Max number of readings; beyond it, every second one is removed and the interval is doubled."""
_MIN_READINGS: Final = 12
"""Min readings, after the first third, for a growth."""
_MIN_BYTES: Final = 32 << 20
"""Min bytes of growth over the steps after the first third."""
_MIN_SHARE: Final = 0.05
"""Min growth over these steps, as a share of the memory."""
_CHECK_INTERVAL: Final = 18
"""Readings between two checks for growth."""
_MIN_KEPT: Final = 10
"""Min added tensors of a reported kind."""
_MAX_KINDS: Final = 3
"""Max kinds of tensors to report."""


class Reading(NamedTuple):
    """Memory at the end of a step."""

    step: int
    host: int
    """Bytes of the process in main memory, without files and shared memory."""
    device: int
    """Bytes of tensors on the current GPU; 0 without a GPU."""


class TensorKind(NamedTuple):
    """Kind of tensors; tensors from one line of a loop are usually of one kind."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    made_by: str | None
    """Operation whose autograd graph the tensors keep; None: no graph."""


@dataclass
class MemoryReadings:
    """Memory of a loop, read at most ten times per second; a reading takes about 30 µs."""

    readings: list[Reading] = field(default_factory=list)
    kept: dict[TensorKind, int] | None = None
    """Kind of tensors → number added between the first sight of growth and the end, most bytes
    first; None: not counted."""
    kept_since: int | None = None
    """Step at which growth was first seen; None: not counted."""
    _due_ns: int = 0
    _interval_ns: int = _INTERVAL_NS
    _counted: Counter[TensorKind] = field(default_factory=Counter)
    """Tensors at the time when growth was first seen."""

    def end_step(self, step: int, now_ns: int) -> bool:
        """Read the memory if a reading is due; return whether tensors were counted: about 0.1 s."""
        if now_ns < self._due_ns:
            return False
        self._due_ns = now_ns + self._interval_ns
        # An unreadable memory must not end the loop.
        with suppress(OSError, psutil.Error, RuntimeError):
            memory, device = psutil.Process().memory_info(), 0
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                device = torch.cuda.memory_allocated()
            host = memory.rss - getattr(memory, "shared", 0)
            self.readings.append(Reading(step, max(0, host), device))
        if len(self.readings) > _MAX_READINGS:
            del self.readings[::2]
            self._interval_ns *= 2
        if self.kept_since is not None or len(self.readings) % _CHECK_INTERVAL:
            return False
        if not self._grows():
            return False
        self.kept_since, self._counted = step, count_tensors()
        return True

    def end(self, steps: int) -> None:
        """Find the kept tensors if the memory has grown; about 0.1 s, once."""
        if self.kept_since is None or self.kept is not None or not self._grows():
            return
        added = {kind: count - self._counted[kind] for kind, count in count_tensors().items()}
        min_kept = max(_MIN_KEPT, (steps - self.kept_since) // 2)
        kinds = [kind for kind, count in added.items() if count >= min_kept]
        kinds.sort(key=lambda kind: -added[kind] * max(1, math.prod(kind.shape)))
        self.kept = {kind: added[kind] for kind in kinds[:_MAX_KINDS]}

    def merge(self, other: "MemoryReadings", *, first_step: int) -> None:
        """Append the readings of further steps; `first_step` is the index of the first one."""
        self.readings += [
            reading._replace(step=reading.step + first_step) for reading in other.readings
        ]
        if other.kept and other.kept_since is not None:
            self.kept, self.kept_since = other.kept, other.kept_since + first_step

    def growth(self, where: str) -> tuple[float, Reading] | None:
        """Return (bytes of `host` or `device` added per step, first reading); None: no growth.

        The first third of the readings does not count. The bytes are a mean up to the last reading.
        Memory grows if it does not fall back (the minimum of the later half of the readings is
        above the maximum of the earlier half), and if the median of slopes (Theil and Sen) is
        large enough.
        """
        later = self.readings[len(self.readings) // 3 :]
        if len(later) < _MIN_READINGS:
            return None
        points = [(reading.step, getattr(reading, where)) for reading in later]
        half = len(points) // 2
        before, after = ([value for _, value in part] for part in (points[:half], points[half:]))
        if min(after) <= max(before):
            return None
        pairs = zip(points[:half], points[-half:], strict=True)
        slope = median((b - a) / (end - start) for (start, a), (end, b) in pairs)
        grown = slope * (points[-1][0] - points[0][0])
        is_growth = grown >= max(_MIN_BYTES, _MIN_SHARE * points[0][1])
        mean = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        return (mean, later[0]) if is_growth else None

    def _grows(self) -> bool:
        return bool(self.growth("host") or self.growth("device"))


def count_tensors() -> Counter[TensorKind]:
    """Return the number of existing tensors of each kind, without parameters; about 0.1 s."""
    counts: Counter[TensorKind] = Counter()
    for tensor in gc.get_objects():
        # Plain tensors only: attributes of subclasses may run code.
        if type(tensor) is torch.Tensor and tensor.layout is torch.strided:
            with suppress(RuntimeError, TypeError):
                made_by = type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else None
                dtype = str(tensor.dtype).removeprefix("torch.")
                counts[TensorKind(tuple(tensor.shape), dtype, str(tensor.device), made_by)] += 1
    return counts
