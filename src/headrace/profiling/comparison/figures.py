"""Figures for the comparison of sessions, over the steps after the warm-up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.comparison.estimate import (
    BootstrapEstimate,
    quantile_estimate,
    ratio_estimate,
)
from headrace.profiling.run_records import LoaderRecord
from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role
from headrace.runtime.distribution import P95_SAMPLES

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
    yield from _throughput(frames[1:], gaps, "frames/s", seed)
    yield from _latencies(session, ends_ms, seed)
    work = {name: np.asarray(column[skip:]) for name, column in steps.work_ms.items()}
    if work:
        service = sum(work.values(), np.zeros(len(frames)))
        yield from _quantiles("Service time", service, seed, holds_source=True)
    for role, column in _sum_by_role(session, work).items():
        estimate = ratio_estimate(column, frames, seed)
        if estimate is not None:
            whole_ms = sum(float(other.sum()) for other in work.values())
            phrase = ROLES[role].phrase
            yield Figure(
                name=phrase[0].upper() + phrase[1:],
                unit="ms per frame",
                estimate=estimate,
                holds_source=role == "decode",
                share=_share(column, whole_ms),
            )
    yield from _usage(session)


def _measure_loop(session: Session, loader: LoaderRecord, seed: int) -> Iterator[Figure]:
    """Yield the figures of a training loop: means over all steps but the first of each epoch."""
    steps, firsts = session.steps, {*loader.first_steps, *range(session.warmup_steps)}
    measured = [index for index in range(len(steps)) if index not in firsts]
    samples, total_ms = (
        np.asarray(column, dtype=np.float64)[measured] for column in (steps.frames, steps.total_ms)
    )
    work = {name: np.asarray(column)[measured] for name, column in steps.work_ms.items()}
    columns = {
        "Wait per step": np.maximum(0.0, total_ms - work.get("step", total_ms)),
        "Time per step, wait included": total_ms,
    }
    for name, column in columns.items():
        yield from _mean(name, column, total_ms, seed)
    yield from _throughput(samples, total_ms / 1e3, "samples/s", seed)
    for name, column in work.items():
        yield from _mean(name, column, total_ms, seed)


def _mean(
    name: str, values_ms: NDArray[np.float64], total_ms: NDArray[np.float64], seed: int
) -> Iterator[Figure]:
    estimate = ratio_estimate(values_ms, np.ones_like(values_ms), seed)
    if estimate is not None:
        share = _share(values_ms, float(total_ms.sum()))
        yield Figure(name=name, unit="ms", estimate=estimate, share=share)


def _share(part_ms: NDArray[np.float64], whole_ms: float) -> float:
    return min(1.0, float(part_ms.sum()) / whole_ms) if whole_ms else 1.0


def _throughput(
    amounts: NDArray[np.float64], seconds: NDArray[np.float64], unit: Unit, seed: int
) -> Iterator[Figure]:
    estimate = ratio_estimate(amounts, seconds, seed)
    if estimate is not None:
        yield Figure(name="Throughput", unit=unit, estimate=estimate, more_is_better=True)


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
