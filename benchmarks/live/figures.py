"""What the parts of `benchmarks.bench_live` share: quantiles, series, and where a part ran."""

from collections.abc import Sequence
from statistics import median
from typing import Self

from benchmarks.markdown import DISTURBED, machine_of
from benchmarks.record import Repeat
from headrace.profiling.provenance import Provenance, Record
from headrace.runtime.distribution import Distribution

NAMES = {
    "headrace": "**headrace**",
    "opencv_latest": "OpenCV, a thread and the newest frame",
    "opencv_queue": "OpenCV, a thread and a queue of 96",
    "opencv_loop": "OpenCV, read and run in one loop",
    "none": "none",
    "mobilenet_v2": "mobilenet_v2, one thread",
}


class Quantiles(Record):
    """Where samples lie, in their unit."""

    count: int
    p50: float
    p95: float | None = None
    """None: too few samples."""
    worst: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self | None:
        """Return those of samples; None where there are none."""
        found = Distribution.of(samples)
        if found is None:
            return None
        return cls(count=found.count, p50=found.p50, p95=found.p95, worst=found.maximum)


class Part(Record):
    """One question; it can be measured alone."""

    provenance: Provenance
    """Its configuration are the parameters of this part."""
    others_share: float | None = None
    """CPU time of everything else meanwhile, as a share of all that was used."""

    @property
    def where(self) -> str:
        """What it ran on and how quiet that was."""
        share = self.others_share
        noise = "" if share is None else f"Other work took {share:.0%} of the CPU time"
        if share is not None and share > DISTURBED:
            noise += ": disturbed, to be measured again"
        return f"{noise}{'. ' if noise else ''}{machine_of(self.provenance)}"

    @staticmethod
    def share_of(meters: Sequence[dict[str, float]]) -> float | None:
        """Return the share of others over the times of several processes."""
        if not meters:
            return None
        total = {name: sum(each[name] for each in meters) for name in meters[0]}
        return Repeat.model_validate(total).others_share


class Series(Record):
    """One quantity over time."""

    at_seconds: tuple[float, ...]
    values: tuple[float, ...]

    def after(self, seconds: float) -> "Series":
        """Return what was sampled from then on."""
        pairs = zip(self.at_seconds, self.values, strict=True)
        kept = [pair for pair in pairs if pair[0] >= seconds]
        return Series(at_seconds=tuple(a for a, _ in kept), values=tuple(v for _, v in kept))

    @property
    def slope(self) -> float:
        """By least squares, a second; 0 where there are fewer than two samples."""
        count = len(self.values)
        if count < 2:
            return 0.0
        mean_at, mean = sum(self.at_seconds) / count, sum(self.values) / count
        pairs = zip(self.at_seconds, self.values, strict=True)
        above = sum((at - mean_at) * (value - mean) for at, value in pairs)
        below = sum((at - mean_at) ** 2 for at in self.at_seconds)
        return above / below if below else 0.0

    @property
    def growth(self) -> float:
        """What the slope makes of the time it was sampled over."""
        return self.slope * (self.at_seconds[-1] - self.at_seconds[0]) if self.values else 0.0


def digits(value: float | None, places: int = 2) -> str:
    """Return a number as a cell; none is empty."""
    return "" if value is None else f"{value:,.{places}f}"


def median_or_never(values: Sequence[float | None], places: int) -> str:
    """Return the median; `never` where half of them are missing."""
    known = sorted(value for value in values if value is not None)
    if 2 * len(known) <= len(values):
        return "never"
    return digits(median([*known, *[known[-1]] * (len(values) - len(known))]), places)
