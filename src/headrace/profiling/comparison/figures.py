"""Figures for the comparison of sessions, each over the steps after the warm-up."""

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
from headrace.profiling.session import Session
from headrace.profiling.stage_records import ROLES, Role
from headrace.runtime.distribution import P95_SAMPLES

Unit = Literal["frames/s", "ms", "ms per frame", "bytes"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of one session."""

    name: str
    unit: Unit
    estimate: BootstrapEstimate
    more_is_better: bool = False
    is_of_run: bool = False
    """Whether the figure is one number per run, without a value per step."""
    holds_source: bool = False
    """Whether it includes the time of the source; a paced source's time includes its waits."""


def figures(session: Session, seed: int) -> dict[str, Figure]:
    """Return name → figure of a session, the most important first.

    Args:
        session: A session.
        seed: Seed of the draws; compared sessions need different seeds.
    """
    return {figure.name: figure for figure in _measure(session, seed)}


def _measure(session: Session, seed: int) -> Iterator[Figure]:
    skip, steps = session.warmup_steps, session.steps
    frames = np.asarray(steps.frames[skip:], dtype=np.float64)
    ends_ms = np.asarray(steps.started_ms) + np.asarray(steps.total_ms)
    ends_ms = ends_ms[skip:]
    gaps = np.diff(ends_ms) / 1e3
    throughput = ratio_estimate(frames[1:], gaps, seed)
    if throughput is not None:
        yield Figure(name="Throughput", unit="frames/s", estimate=throughput, more_is_better=True)
    yield from _latencies(session, ends_ms, seed)
    work = {name: np.asarray(column[skip:]) for name, column in steps.work_ms.items()}
    if work:
        service = sum(work.values(), np.zeros(len(frames)))
        yield from _quantiles("Service time", service, seed, holds_source=True)
    for role, column in _sum_by_role(session, work).items():
        estimate = ratio_estimate(column, frames, seed)
        if estimate is not None:
            phrase = ROLES[role].phrase
            yield Figure(
                name=phrase[0].upper() + phrase[1:],
                unit="ms per frame",
                estimate=estimate,
                holds_source=role == "decode",
            )
    yield from _usage(session)


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
    """Yield the figures with one number per run; their spread is unknown."""
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
