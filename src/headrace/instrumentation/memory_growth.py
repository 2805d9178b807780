"""Memory of a loop over its steps: whether it grows, and which tensors are kept."""

import gc
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

import psutil
import torch

_INTERVAL_NS: Final = 100_000_000
"""Min time between two readings."""
_MAX_READINGS: Final = 1_000
"""Readings that are kept; then every second one goes, and they are taken half as often."""
_MIN_READINGS: Final = 12
_MIN_BYTES: Final = 32 << 20
"""Min growth, over the steps after the first third, that is told."""
_MIN_SHARE: Final = 0.05
"""Min growth as a share of the memory."""
_MAX_GROUPS: Final = 3


class Reading(NamedTuple):
    """Memory at the end of a step."""

    step: int
    host: int
    """Bytes of the process in main memory."""
    device: int
    """Bytes of its tensors on the current GPU; 0 without one."""


class TensorGroup(NamedTuple):
    """Tensors of one shape that are alive."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    made_by: str | None
    """Operation whose graph they keep; None: they keep no graph."""
    tensors: int
    """At least one for every second step."""


@dataclass
class MemoryReadings:
    """Memory of a loop, read at most ten times a second; a reading takes about 30 µs."""

    readings: list[Reading] = field(default_factory=list)
    kept: tuple[TensorGroup, ...] = ()
    """Tensors that were alive when the memory was last seen to have grown, the most bytes first."""
    _due_ns: int = 0
    _interval_ns: int = _INTERVAL_NS

    def end_step(self, step: int, now_ns: int) -> None:
        """Read the memory if it is time."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + self._interval_ns
        device = 0
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            device = torch.cuda.memory_allocated()
        self.readings.append(Reading(step, psutil.Process().memory_info().rss, device))
        if len(self.readings) > _MAX_READINGS:
            del self.readings[::2]
            self._interval_ns *= 2

    def end_epoch(self, steps: int) -> None:
        """Look for the tensors that are kept, if the memory has grown; about 0.1 s then."""
        if self.growth("host") or self.growth("device"):
            self.kept = find_kept_tensors(steps)

    def merge(self, other: "MemoryReadings", *, first_step: int) -> None:
        """Add the readings of further steps, the first of which is `first_step`."""
        self.readings += [
            reading._replace(step=reading.step + first_step) for reading in other.readings
        ]
        self.kept = other.kept or self.kept

    def growth(self, where: str) -> float | None:
        """Return the bytes that a step adds in `host` or `device`; None: it does not grow.

        The slope is the median of all slopes between readings after the first third (Theil and
        Sen). It is a growth if the memory never falls back: the least of the last third is more
        than the most of the one before.
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
        return slope if grown >= max(_MIN_BYTES, _MIN_SHARE * points[0][1]) else None


def find_kept_tensors(steps: int) -> tuple[TensorGroup, ...]:
    """Return the groups of living tensors with at least one for every second step."""
    groups: Counter[tuple[Any, ...]] = Counter()
    bytes_of: Counter[tuple[Any, ...]] = Counter()
    for found in gc.get_objects():
        kind = type(found)  # not isinstance: proxies would answer by running code
        if issubclass(kind, torch.Tensor) and not issubclass(kind, torch.nn.Parameter):
            made_by = type(found.grad_fn).__name__ if found.grad_fn is not None else None
            dtype = str(found.dtype).removeprefix("torch.")
            key = (tuple(found.shape), dtype, str(found.device), made_by)
            groups[key] += 1
            bytes_of[key] += found.nbytes
    kept = [key for key, count in groups.items() if count >= max(2, steps // 2)]
    kept.sort(key=lambda key: -bytes_of[key])
    found = []
    for key in kept[:_MAX_GROUPS]:
        shape, dtype, device, made_by = key
        found.append(TensorGroup(shape, dtype, device, made_by, groups[key]))
    return tuple(found)
