"""Values shared by the live benchmarks: quantiles, series, provenance."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from statistics import linear_regression, median
from time import perf_counter
from typing import Self, TypeVar

import psutil
from numpy.typing import ArrayLike

from benchmarks.markdown import DISTURBED, figure, machine
from headrace.profiling.provenance import Provenance, Record
from headrace.runtime.distribution import Distribution
from headrace.runtime.synchronization import call_every

T = TypeVar("T")

NAMES = {
    "headrace": "**headrace**",
    "opencv_latest": "OpenCV, reader thread, newest frame",
    "opencv_queue": "OpenCV, reader thread, queue of 96",
    "opencv_loop": "OpenCV, one loop",
    "none": "no model",
    "mobilenet_v2": "mobilenet_v2, one thread",
}


class Quantiles(Record):
    """Quantiles of samples, in the unit of the samples."""

    count: int
    p50: float
    p95: float | None = None
    """None: too few samples."""
    worst: float

    @classmethod
    def of(cls, samples: ArrayLike) -> Self | None:
        """Return the quantiles of samples, [N]; None without samples."""
        if (d := Distribution.of(samples)) is None:
            return None
        return cls(count=d.count, p50=d.p50, p95=d.p95, worst=d.maximum)


class Part(Record):
    """Part of a result that can be measured alone."""

    provenance: Provenance
    """Provenance, with the parameters of this part as configuration."""
    others_share: float | None = None
    """CPU time of other programs ÷ all CPU time."""

    @property
    def where(self) -> str:
        """Machine, and the CPU time of other programs."""
        if self.others_share is None:
            return machine(self.provenance)
        noise = f"Other programs used {self.others_share:.0%} of the CPU time"
        if self.others_share > DISTURBED:
            noise += ", too much: measure again"
        return f"{noise}. {machine(self.provenance)}"


class Conserved(Record):
    """Counts of all frames of a run."""

    arrived: int
    delivered: int
    in_flight: int
    drops: dict[str, int]
    """Stage and cause of a drop → number of frames."""

    @property
    def is_conserved(self) -> bool:
        """Whether arrived = delivered + dropped + in flight."""
        return self.arrived == self.delivered + sum(self.drops.values()) + self.in_flight


class Series(Record):
    """One quantity over time."""

    at_seconds: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, samples: Iterable[tuple[float, float]]) -> Self:
        """Return the series of (seconds, value)."""
        pairs = list(samples)
        return cls(at_seconds=tuple(at for at, _ in pairs), values=tuple(v for _, v in pairs))

    def after(self, seconds: float) -> Self:
        """Return the samples at or after `seconds`."""
        pairs = zip(self.at_seconds, self.values, strict=True)
        return self.of(pair for pair in pairs if pair[0] >= seconds)

    @property
    def slope(self) -> float:
        """Slope per second, by least squares; 0 without two different times."""
        if len(set(self.at_seconds)) < 2:
            return 0.0
        return linear_regression(self.at_seconds, self.values).slope

    @property
    def growth(self) -> float:
        """Slope × time from the first sample to the last."""
        return self.slope * (self.at_seconds[-1] - self.at_seconds[0]) if self.values else 0.0


@contextmanager
def sampled(sample: Callable[[], T], every_seconds: float) -> Iterator[list[tuple[float, T]]]:
    """Yield a list of (seconds, sample) that grows during the block.

    The first sample is taken at once. Errors of an ended process are ignored.
    """
    series, began = list[tuple[float, T]](), perf_counter()

    def append() -> None:
        seconds = perf_counter() - began
        with suppress(psutil.Error):
            series.append((round(seconds, 3), sample()))

    append()
    with call_every(append, every_seconds):
        yield series


def median_or_never(values: Sequence[float | None], form: str = ",.2f") -> str:
    """Return the median; `never` if half of the values are missing."""
    known = sorted(value for value in values if value is not None)
    if 2 * len(known) <= len(values):
        return "never"
    return figure(median([*known, *[known[-1]] * (len(values) - len(known))]), form)
