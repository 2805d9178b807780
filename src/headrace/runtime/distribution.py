"""Distribution of exact samples of a quantity, and a ring buffer of the latest samples."""

from array import array
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

P95_SAMPLES: Final = 90
"""Minimum number of samples of a p95: with 99 % confidence the largest of 90 is above it
(0.95 ** 90 < 0.01)."""
P99_SAMPLES: Final = 459
"""Minimum number of samples of a p99 (0.99 ** 459 < 0.01)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """Distribution of exact samples, in their unit; percentiles are samples (nearest rank)."""

    count: int
    mean: float
    std: float
    """Standard deviation of the samples (divisor n)."""
    minimum: float
    p50: float
    p90: float
    p95: float | None
    """None for fewer than `P95_SAMPLES` samples."""
    p99: float | None
    """None for fewer than `P99_SAMPLES` samples."""
    maximum: float

    @classmethod
    def of(cls, samples: ArrayLike) -> Self | None:
        """Return the distribution of `samples`, [N]; None without samples. Sorts a copy."""
        values = np.asarray(samples, dtype=np.float64)
        if not len(values):
            return None
        p50, p90, p95, p99 = np.percentile(values, (50, 90, 95, 99), method="inverted_cdf")
        return cls(
            count=len(values),
            mean=float(values.mean()),
            std=float(values.std()),
            minimum=float(values.min()),
            p50=float(p50),
            p90=float(p90),
            p95=float(p95) if len(values) >= P95_SAMPLES else None,
            p99=float(p99) if len(values) >= P99_SAMPLES else None,
            maximum=float(values.max()),
        )


class RingBuffer:
    """The latest `max_length` numbers; memory grows up to that length.

    Integers become floats: exact up to 2**53, or 104 days of nanoseconds.
    """

    def __init__(self, max_length: int) -> None:
        """Start empty."""
        self._max_length = max_length
        self._numbers = array("d")
        self._oldest = 0

    def append(self, number: float) -> None:
        """Add a number; replace the oldest if the buffer is full."""
        if len(self._numbers) < self._max_length:
            self._numbers.append(number)
            return
        self._numbers[self._oldest] = number
        self._oldest = (self._oldest + 1) % self._max_length

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self) -> NDArray[np.float64]:
        """Return the numbers, float64 [n], the oldest first."""
        return np.roll(np.array(self._numbers), -self._oldest)
