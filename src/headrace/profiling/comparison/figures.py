"""The figures two sessions are compared by, each over the steps behind the warm-up."""

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
    """Whether it is one number for a whole run, which no step tells of."""
    holds_source: bool = False
    """Whether what the source took is in it, which a paced one does before its time has come."""


def figures(session: Session, seed: int) -> dict[str, Figure]:
    """Return the figures of a session by their names, those first that are asked for first.

    Args:
        session: What was recorded.
        seed: Of the draws; sessions that are compared need different ones.
    """
    return {figure.name: figure for figure in _figures(session, seed)}


def _figures(session: Session, seed: int) -> Iterator[Figure]:
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
        whole = sum(work.values(), np.zeros(len(frames)))
        yield from _quantiles("Service time", whole, seed, holds_source=True)
    for role, column in _by_role(session, work).items():
        estimate = ratio_estimate(column, frames, seed)
        if estimate is not None:
            phrase = ROLES[role].phrase
            yield Figure(
                name=phrase[0].upper() + phrase[1:],
                unit="ms per frame",
                estimate=estimate,
                holds_source=role == "decode",
            )
    yield from _single(session)


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


def _by_role(
    session: Session, work: dict[str, NDArray[np.float64]]
) -> dict[Role, NDArray[np.float64]]:
    found: dict[Role, NDArray[np.float64]] = {}
    for stage in session.stages:
        if stage.name in work:
            found[stage.role] = found.get(stage.role, 0.0) + work[stage.name]
    return found


def _single(session: Session) -> Iterator[Figure]:
    """What is one number for a whole run, so that nothing tells how it spreads."""
    used, frames = session.usage, sum(session.steps.frames)
    if used is None:
        return
    if frames:
        each = BootstrapEstimate(value=used.cpu_seconds / frames * 1e3, deviations=None)
        yield Figure(name="CPU time", unit="ms per frame", estimate=each, is_of_run=True)
    for name, value in (
        ("Peak memory", used.peak_memory_bytes),
        ("Peak GPU memory", used.peak_gpu_bytes),
    ):
        if value:
            whole = BootstrapEstimate(value=value, deviations=None)
            yield Figure(name=name, unit="bytes", estimate=whole, is_of_run=True)
