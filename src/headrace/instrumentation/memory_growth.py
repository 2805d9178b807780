"""Memory of a loop over its steps: whether it grows, and which tensors are kept."""

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
"""Min time between two readings."""
_MAX_READINGS: Final = 1_000
"""Readings that are kept; then every second one goes, and they are taken half as often."""
_MIN_READINGS: Final = 12
_MIN_BYTES: Final = 32 << 20
"""Min growth, over the steps after the first third, that is reported."""
_MIN_SHARE: Final = 0.05
"""Min growth as a share of the memory."""
_CHECKED: Final = 18
"""Readings after which growth is looked for, each time."""
_MIN_KEPT: Final = 10
"""Min tensors of a kind to be reported."""
_MAX_KINDS: Final = 3


class Reading(NamedTuple):
    """Memory at the end of a step."""

    step: int
    host: int
    """Bytes of the process in main memory, those of files and shared memory not included."""
    device: int
    """Bytes of its tensors on the current GPU; 0 without one."""


class TensorKind(NamedTuple):
    """Kind of tensors: tensors made by one line of a loop are of one kind."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    made_by: str | None
    """Operation whose graph they keep; None: they keep no graph."""


@dataclass
class MemoryReadings:
    """Memory of a loop, read at most ten times a second; a reading takes about 30 µs."""

    readings: list[Reading] = field(default_factory=list)
    kept: dict[TensorKind, int] | None = None
    """Kind of tensors → how many more there were at the end than when growth was first seen, the
    most bytes first; None: not looked for."""
    _due_ns: int = 0
    _interval_ns: int = _INTERVAL_NS
    _counted: tuple[int, Counter[TensorKind]] | None = None
    """Step and tensors when growth was first seen."""

    def end_step(self, step: int, now_ns: int) -> bool:
        """Read the memory if it is time; return whether tensors were counted, for some 0.1 s."""
        if now_ns < self._due_ns:
            return False
        self._due_ns = now_ns + self._interval_ns
        # Memory that cannot be read is no reason to end a loop.
        with suppress(OSError, psutil.Error, RuntimeError):
            memory, device = psutil.Process().memory_info(), 0
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                device = torch.cuda.memory_allocated()
            host = memory.rss - getattr(memory, "shared", 0)
            self.readings.append(Reading(step, max(0, host), device))
        if len(self.readings) > _MAX_READINGS:
            del self.readings[::2]
            self._interval_ns *= 2
        if self._counted or len(self.readings) % _CHECKED or not self._grows():
            return False
        self._counted = step, count_tensors()
        return True

    def end(self, steps: int) -> None:
        """Find the tensors that are kept, once, if the memory has grown; some 0.1 s then."""
        if self._counted is None or self.kept is not None or not self._grows():
            return
        (first, before), after = self._counted, count_tensors()
        more = {kind: count - before[kind] for kind, count in after.items()}
        least = max(_MIN_KEPT, (steps - first) // 2)
        kinds = [kind for kind, count in more.items() if count >= least]
        kinds.sort(key=lambda kind: -more[kind] * max(1, math.prod(kind.shape)))
        self.kept = {kind: more[kind] for kind in kinds[:_MAX_KINDS]}

    def merge(self, other: "MemoryReadings", *, first_step: int) -> None:
        """Add the readings of further steps, the first of which is `first_step`."""
        self.readings += [
            reading._replace(step=reading.step + first_step) for reading in other.readings
        ]
        self.kept = other.kept or self.kept

    def growth(self, where: str) -> tuple[float, int] | None:
        """Return the bytes that a step adds in `host` or `device`, and those it began with.

        None: it does not grow. The slope is a median of slopes between readings after the first
        third (Theil and Sen). It is a growth if the memory never falls back: the least of the later
        half is more than the most of the one before.
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
        return (slope, points[0][1]) if is_growth else None

    def _grows(self) -> bool:
        return bool(self.growth("host") or self.growth("device"))


def count_tensors() -> Counter[TensorKind]:
    """Return the number of living tensors of each kind, but parameters; some 0.1 s."""
    counts: Counter[TensorKind] = Counter()
    for found in gc.get_objects():
        # Plain tensors alone: others would answer by running code.
        if type(found) is torch.Tensor and found.layout is torch.strided:
            with suppress(RuntimeError, TypeError):
                made_by = type(found.grad_fn).__name__ if found.grad_fn is not None else None
                dtype = str(found.dtype).removeprefix("torch.")
                counts[TensorKind(tuple(found.shape), dtype, str(found.device), made_by)] += 1
    return counts
