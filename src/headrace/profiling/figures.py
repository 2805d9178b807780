"""Figures for the comparison of sessions, with bootstrap estimates and the spread of runs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.run_records import ROLES, LoaderRecord, Role
from headrace.profiling.session import Session
from headrace.runtime.distribution import P95_SAMPLES
from headrace.sampling.bias import resampled_sums, student_975


def block_length(series: NDArray[np.float64]) -> int:
    """Return the block length for a circular block bootstrap of the mean of a series.

    The rule of Politis and White (2004, corrected with Patton 2009): the length grows with the
    correlation of neighbors. The result is at least the cube root of the number of steps, because
    the rule underestimates the correlation of short series, and at most a fifth of the steps.

    Args:
        series: float64 [steps].
    """
    steps = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / steps
    if steps < 5 or variance <= 0:
        return 1
    max_lag = min(steps - 1, math.ceil(math.sqrt(steps)) + 2 * _noise_lags(steps))
    covariances = np.array([centred[: steps - lag] @ centred[lag:] for lag in range(max_lag + 1)])
    covariances = covariances / steps
    last = min(max_lag, 2 * _find_last_lag(covariances / variance, steps))
    lags = np.arange(-last, last + 1)
    # Flat top: full weight for the first half of the lags, then linear to 0.
    weights = np.clip(2 * (1 - np.abs(lags) / max(1, last)), 0, 1)
    spectrum = float((weights * covariances[np.abs(lags)]).sum())
    slope = float((weights * np.abs(lags) * covariances[np.abs(lags)]).sum())
    min_length = round(math.pow(steps, 1 / 3))
    if spectrum <= 0:
        return min_length
    length = math.pow(1.5 * (slope / spectrum) ** 2 * steps, 1 / 3)
    return max(min_length, min(round(length), steps // 5))


def _noise_lags(steps: int) -> int:
    """Return the min number of consecutive lags that look like noise."""
    return max(5, math.ceil(math.sqrt(math.log10(steps))))


def _find_last_lag(correlations: NDArray[np.float64], steps: int) -> int:
    """Return the lag after which correlations look like noise; at least 1."""
    limit = 2 * math.sqrt(math.log10(steps) / steps)
    window = _noise_lags(steps)
    for lag in range(len(correlations) - window):
        if (np.abs(correlations[lag + 1 : lag + 1 + window]) < limit).all():
            return max(1, lag)
    return max(1, len(correlations) - 1)


LEVEL: Final = 0.95
"""Confidence level of an interval."""
DRAWS: Final = 2_000
"""Bootstrap draws."""
MIN_STEPS: Final = 30
"""Min steps for an interval."""
MIN_BLOCKS: Final = 5
"""Min blocks for an interval."""
_MAX_GROUPS: Final = 1_000
"""Max values to draw from; more steps are first summed in groups, to reduce the cost."""


@dataclass(frozen=True, kw_only=True)
class BootstrapEstimate:
    """One figure of one session."""

    value: float
    deviations: NDArray[np.float64] | None
    """float64 [DRAWS]: log(drawn value ÷ `value`); None: too few steps, or `value` is 0."""


def ratio_estimate(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64], seed: int
) -> BootstrapEstimate | None:
    """Return the ratio of two sums, such as milliseconds per frame; None: the denominator is 0.

    Args:
        numerator: float64 [steps].
        denominator: float64 [steps].
        seed: Seed of the draws.
    """
    if not len(numerator) or denominator.sum() <= 0:
        return None
    value = float(numerator.sum() / denominator.sum())
    columns = _group(np.stack([numerator, denominator], axis=1))
    drawn = _draw(columns, columns[:, 0] - value * columns[:, 1], seed)
    if drawn is None or value <= 0:
        return BootstrapEstimate(value=value, deviations=None)
    sums, widening = drawn
    ratios = np.maximum(sums[:, 0], np.finfo(float).tiny) / sums[:, 1]
    return BootstrapEstimate(value=value, deviations=np.log(ratios / value) * widening)


def quantile_estimate(
    values: NDArray[np.float64], share: float, seed: int
) -> BootstrapEstimate | None:
    """Return a quantile by nearest rank; None without samples.

    If a draw has a smaller share of its samples below the quantile, its own quantile is the sample
    at a rank that is higher by the difference (Bahadur 1966).

    Args:
        values: float64 [steps].
        share: Quantile in (0, 1); 0.5 is the median.
        seed: Seed of the draws.
    """
    if not len(values):
        return None
    ranked = np.sort(values)
    value = _select(ranked, np.array([share]))[0]
    below = (values <= value).astype(np.float64)
    columns = _group(np.stack([below, np.ones_like(below)], axis=1))
    drawn = _draw(columns, columns[:, 0] - below.mean() * columns[:, 1], seed)
    if drawn is None or value <= 0:
        return BootstrapEstimate(value=float(value), deviations=None)
    sums, widening = drawn
    shifts = (sums[:, 0] / sums[:, 1] - below.mean()) * widening
    others = np.maximum(_select(ranked, share - shifts), np.finfo(float).tiny)
    return BootstrapEstimate(value=float(value), deviations=np.log(others / value))


def _select(ranked: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the samples at the ranks of `shares`, which are clipped to [0, 1]."""
    ranks = np.ceil(shares * len(ranked)).astype(np.int64) - 1
    samples: NDArray[np.float64] = ranked[np.clip(ranks, 0, len(ranked) - 1)]
    return samples


def _group(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums over groups of consecutive steps; a partial last group is dropped."""
    size = -(-len(columns) // _MAX_GROUPS)
    stop = len(columns) // size * size
    grouped: NDArray[np.float64] = columns[:stop].reshape(-1, size, columns.shape[1]).sum(axis=1)
    return grouped


def _draw(
    columns: NDArray[np.float64], influence: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], float] | None:
    """Return the sums of the draws, and the factor to widen them; None: too few blocks."""
    block = block_length(influence)
    blocks = len(columns) / block
    if len(columns) < MIN_STEPS or blocks < MIN_BLOCKS:
        return None
    return resampled_sums(columns, block, DRAWS, seed), _widening(blocks)


def _widening(blocks: float) -> float:
    """Return the factor that corrects the width of an interval from few blocks.

    Uses Student's t instead of the normal distribution, and n - 1 in the spread: Hesterberg 2015,
    "What teachers should know about the bootstrap". Approaches 1 with many blocks; 1.6 for five.
    """
    free = blocks - 1
    return student_975(free) / student_975(math.inf) * math.sqrt(blocks / free)


ASSUMED: Final = 0.02
"""Assumed standard deviation of a figure's logarithm from run to run, without repeats.

`bench_compare` measured it: equal loops of 5 ms steps, in turns on a quiet machine.
"""
_MIN_SHARE: Final = 1e-4
"""Min share of a step in the formula of the assumed spread."""
_MAX_LOGARITHM: Final = 100.0
"""Max logarithm of a change: a factor of 1e43."""


@dataclass(frozen=True, kw_only=True)
class RunSpread:
    """Spread of a figure from run to run, assumed to be equal on all sides."""

    deviation: float
    """Standard deviation of the figure's logarithm from run to run."""
    freedom: int
    """Degrees of freedom: runs minus sides."""

    @classmethod
    def of(cls, sides: Sequence[Sequence[float]]) -> Self | None:
        """Return the spread of a figure, pooled over at least one side.

        None without repeats, or if a value is 0.
        """
        freedom = sum(map(len, sides)) - len(sides)
        if not freedom or min(map(min, sides)) <= 0:
            return None
        logs = [np.log(side) for side in sides]
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in logs)
        return cls(deviation=math.sqrt(squares / freedom), freedom=freedom)

    def reach(self, first: int, other: int) -> float:
        """Return half the width of the 95 % interval of a change, by Student's t, as a logarithm.

        Args:
            first: Number of runs of the first side.
            other: Number of runs of the other side.
        """
        return student_975(self.freedom) * self.deviation * math.sqrt(1 / first + 1 / other)


def widened(reach: float, share: float) -> float:
    """Return the reach of an interval over the steps of two runs, including their assumed spread.

    The smaller the share of a part of a step, the larger its spread: if a step is a sum of equal,
    independent parts, the spread is that of a step ÷ √share.
    """
    spread = ASSUMED / math.sqrt(max(share, _MIN_SHARE))
    return math.hypot(reach, student_975(math.inf) * spread * math.sqrt(2))


def spread_within(estimates: Iterable[BootstrapEstimate | None]) -> float | None:
    """Return the relative standard error of the figure of one run, the mean over all runs.

    None: no run has draws.
    """
    drawn = [estimate.deviations for estimate in estimates if estimate is not None]
    errors = [float(np.std(deviations)) for deviations in drawn if deviations is not None]
    return relative(fmean(errors)) if errors else None


def relative(logarithm: float) -> float:
    """Return the relative change of a logarithm, which is limited to `_MAX_LOGARITHM`."""
    return math.expm1(min(logarithm, _MAX_LOGARITHM))


Unit = Literal["frames/s", "samples/s", "ms", "ms per frame", "bytes"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of one session."""

    name: str
    unit: Unit
    estimate: BootstrapEstimate
    more_is_better: bool = False
    is_of_run: bool = False
    """Whether the figure has one value per run, and none per step."""
    holds_source: bool = False
    """Whether the figure includes the time of the source; that of a paced source includes waits."""
    share: float = 1.0
    """Share of the time of a step, in (0, 1]; 1 for figures of whole steps."""


WAIT: Final = "Wait per step"
"""Name of the first figure of a training loop."""


def figures(session: Session, seed: int) -> dict[str, Figure]:
    """Return name → figure of a session, most important first.

    Args:
        session: A session.
        seed: Seed of the draws; compared sessions need different seeds.
    """
    return {figure.name: figure for figure in _measure(session, seed)}


def _measure(session: Session, seed: int) -> Iterator[Figure]:
    if session.loader is not None:
        yield from _measure_loop(session, session.loader, seed)
        return
    skip, steps = session.warmup_steps, session.steps
    frames = np.asarray(steps.frames[skip:], dtype=np.float64)
    ends_ms = np.asarray(steps.started_ms) + np.asarray(steps.total_ms)
    ends_ms = ends_ms[skip:]
    gaps = np.diff(ends_ms) / 1e3
    yield from _ratio("Throughput", "frames/s", frames[1:], gaps, seed, more_is_better=True)
    yield from _latencies(session, ends_ms, seed)
    work = {name: np.asarray(column[skip:]) for name, column in steps.work_ms.items()}
    if work:
        service = sum(work.values(), np.zeros(len(frames)))
        yield from _quantiles("Service time", service, seed, holds_source=True)
    whole_ms = sum(float(column.sum()) for column in work.values())
    for role, column in _sum_by_role(session, work).items():
        name, share = ROLES[role].phrase, _share(column, whole_ms)
        name = name[0].upper() + name[1:]
        options = {"holds_source": role == "decode", "share": share}
        yield from _ratio(name, "ms per frame", column, frames, seed, **options)
    yield from _usage(session)


def _measure_loop(session: Session, loader: LoaderRecord, seed: int) -> Iterator[Figure]:
    """Yield the figures of a training loop: means over all steps but the first of each epoch."""
    steps, firsts = session.steps, {*loader.first_steps, *range(session.warmup_steps)}
    measured = [index for index in range(len(steps)) if index not in firsts]
    samples, total_ms = (
        np.asarray(column, dtype=np.float64)[measured] for column in (steps.frames, steps.total_ms)
    )
    work = {name: np.asarray(column)[measured] for name, column in steps.work_ms.items()}

    def mean(name: str, column: NDArray[np.float64]) -> Iterator[Figure]:
        share = _share(column, float(total_ms.sum()))
        return _ratio(name, "ms", column, np.ones_like(column), seed, share=share)

    yield from mean(WAIT, np.maximum(0.0, total_ms - work.get("step", total_ms)))
    yield from mean("Time per step, wait included", total_ms)
    rates = (samples, total_ms / 1e3)
    yield from _ratio("Throughput", "samples/s", *rates, seed, more_is_better=True)
    for name, column in work.items():
        yield from mean(name, column)


def _ratio(
    name: str,
    unit: Unit,
    numerator: NDArray[np.float64],
    denominator: NDArray[np.float64],
    seed: int,
    **options: Any,
) -> Iterator[Figure]:
    """Yield the figure of a ratio of two sums, unless the denominator is 0."""
    estimate = ratio_estimate(numerator, denominator, seed)
    if estimate is not None:
        yield Figure(name=name, unit=unit, estimate=estimate, **options)


def _share(part_ms: NDArray[np.float64], whole_ms: float) -> float:
    return min(1.0, float(part_ms.sum()) / whole_ms) if whole_ms else 1.0


def _latencies(session: Session, ends_ms: NDArray[np.float64], seed: int) -> Iterator[Figure]:
    arrived = session.steps.arrived_ms[session.warmup_steps :]
    if session.pace == "full_speed" or not arrived or None in arrived:
        return
    ages = ends_ms - np.asarray(arrived, dtype=np.float64)
    yield from _quantiles(f"Latency from {session.pace}", ages, seed)


def _quantiles(
    name: str, values: NDArray[np.float64], seed: int, *, holds_source: bool = False
) -> Iterator[Figure]:
    for share, word in ((0.5, "median"), (0.95, "p95")):
        if share == 0.5 or len(values) >= P95_SAMPLES:
            estimate = quantile_estimate(values, share, seed)
            if estimate is not None:
                yield Figure(
                    name=f"{name}, {word}", unit="ms", estimate=estimate, holds_source=holds_source
                )


def _sum_by_role(
    session: Session, work: dict[str, NDArray[np.float64]]
) -> dict[Role, NDArray[np.float64]]:
    roles: dict[Role, NDArray[np.float64]] = {}
    for stage in session.stages:
        if stage.name in work:
            roles[stage.role] = roles.get(stage.role, 0.0) + work[stage.name]
    return roles


def _usage(session: Session) -> Iterator[Figure]:
    """Yield the figures with one value per run; their spread is unknown."""
    usage, frames = session.usage, sum(session.steps.frames)
    if usage is None:
        return
    cpu_ms = usage.cpu_seconds / frames * 1e3 if frames else None
    values: tuple[tuple[str, Unit, float | None], ...] = (
        ("CPU time", "ms per frame", cpu_ms),
        ("Peak memory", "bytes", usage.peak_memory_bytes or None),
        ("Peak GPU memory", "bytes", usage.peak_gpu_bytes or None),
    )
    for name, unit, value in values:
        if value is not None:
            estimate = BootstrapEstimate(value=value, deviations=None)
            yield Figure(name=name, unit=unit, estimate=estimate, is_of_run=True)
