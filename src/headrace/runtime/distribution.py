"""Where the samples of one quantity lie: the one type of percentile."""

from array import array
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

P95_SAMPLES: Final = 90
"""Fewer samples cannot show a p95: with 99 % confidence the largest of 90 is above it
(0.95 ** 90 < 0.01)."""
P99_SAMPLES: Final = 459
"""The same for p99 (0.99 ** 459 < 0.01)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """Where exact samples lie, in their unit; percentiles are samples (nearest rank)."""

    count: int
    mean: float
    std: float
    """Of the samples at hand (no n - 1)."""
    minimum: float
    p50: float
    p90: float
    p95: float | None
    """None: n too small, below `P95_SAMPLES`."""
    p99: float | None
    """None: n too small, below `P99_SAMPLES`."""
    maximum: float

    @classmethod
    def of(cls, samples: ArrayLike) -> Self | None:
        """The distribution of `samples`, [N]; None when there are none. Sorts a copy."""
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
    """Keeps the last `most` numbers; memory grows until then, and no more.

    Integers come back as floats: exact up to 2**53, which nanoseconds reach after 104 days.
    """

    def __init__(self, most: int) -> None:
        """None yet."""
        self._most = most
        self._numbers = array("d")
        self._oldest = 0

    def append(self, number: float) -> None:
        """Keep a number, in place of the oldest where there are as many as are kept."""
        if len(self._numbers) < self._most:
            self._numbers.append(number)
            return
        self._numbers[self._oldest] = number
        self._oldest = (self._oldest + 1) % self._most

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self) -> NDArray[np.float64]:
        """Return them, float64 [n], the oldest first."""
        return np.roll(np.array(self._numbers), -self._oldest)
