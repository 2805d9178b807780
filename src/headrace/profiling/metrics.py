"""Metrics of a session: the definition of each figure, for every report.

Warm-up steps are left out. A step is *output* when it leaves the sink, with all its frames at
once. Standard deviations are population standard deviations (divided by n).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.session import Pace, Session
from headrace.profiling.stage_records import Role
from headrace.runtime.distribution import Distribution

STALL_SECONDS: Final = 2.0
"""Min seconds without output for a stall; a stall is also longer than two median intervals."""
STABILITY_SECONDS: Final = 10
"""Min whole seconds for the spread of the frame rate."""


@dataclass(frozen=True, kw_only=True)
class PerSecond:
    """Frames output in each whole second; the partial seconds at both ends are left out."""

    first_second: int
    """Start of the first count, in seconds since the start of the run; it covers [first_second,
    first_second + 1)."""
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Latency of results: time from `base` to the output."""

    base: Pace
    """`schedule`, `arrival` or `capture`."""
    ms: Distribution
    """Age of the newest frame of each step."""
    oldest_ms: Distribution | None = None
    """Age of the oldest frame of each step; None if each step has one frame."""


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """Intervals without output, longer than `STALL_SECONDS` and two median intervals."""

    count: int
    seconds: float
    """Sum of all stalls."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Mean milliseconds that each stage works on a step."""

    stages: dict[str, float]
    """Stage → milliseconds, in the order of the frames."""
    roles: dict[Role, float]
    """Role → milliseconds, summed over its stages."""

    @property
    def ratio(self) -> tuple[float, float, float] | None:
        """L_dec : L_prep : L_inf, scaled to 1 for the smallest positive part; None if all are 0."""
        costs = [self.roles.get(role, 0.0) for role in ("decode", "preprocess", "model")]
        unit = min((cost for cost in costs if cost > 0), default=None)
        if unit is None:
            return None
        return (costs[0] / unit, costs[1] / unit, costs[2] / unit)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Metrics of one session."""

    steps: int
    """Measured steps."""
    frames: int
    """Frames in these steps."""
    startup_seconds: float
    """From the start of the run to its first step, or to the end of the warm-up."""
    cost: Cost | None
    service_ms: Distribution | None
    """Work per step, summed over the stages, waits not included. A file at full speed has no
    latency: the wait of a step only reflects the capacity of the queues."""
    latency: Latency | None
    """None at full speed."""
    capture_ms: Distribution | None
    """Latency since capture, by the sender's clock; None if no sender sends its clock. Separate
    from `latency`."""
    stalls: Stalls | None
    """None at full speed."""
    interval_ms: Distribution | None
    """Time between consecutive outputs."""
    fps_mean: float | None
    """Frames per second from the first to the last output, without the frames of the first output:
    (N - 1) / (t_N - t_1) for steps of one frame."""
    per_second: PerSecond | None
    fps_cv: float | None
    """Standard deviation ÷ mean of the counts per second. Below 0.05 is steady. Large batches raise
    it, because their frames are output at once."""
    jitter_ms: float | None
    """Latency jitter: standard deviation of the intervals between outputs. 0 is perfectly
    regular."""
    interval_cv: float | None
    """`jitter_ms` ÷ mean interval."""
    amplification: float | None
    """Frames decoded per frame delivered. 1 is ideal; at 2, half of the decoded frames were not
    requested."""

    @classmethod
    def of(cls, session: Session) -> Self:
        """Compute all metrics; about 20 ms for 100,000 steps."""
        steps, skip, decode = session.steps, session.warmup_steps, session.decode
        frames = np.asarray(steps.frames[skip:], dtype=np.int64)
        work = {stage: np.asarray(column[skip:]) for stage, column in steps.work_ms.items()}
        ends = _ends_seconds(session)
        outputs = ends[skip:]
        intervals_ms = Distribution.of(np.diff(outputs) * 1e3)
        spread = intervals_ms if intervals_ms and intervals_ms.count > 1 else None
        per_second = _per_second(outputs, frames)
        return cls(
            steps=len(frames),
            frames=int(frames.sum()),
            startup_seconds=_startup_seconds(session, ends),
            cost=_cost(session, work),
            service_ms=Distribution.of(sum(work.values(), np.zeros(len(frames)))),
            latency=_latency(session),
            capture_ms=Distribution.of(
                [ms for ms in steps.capture_latency_ms[skip:] if ms is not None]
            ),
            stalls=_stalls(session, outputs),
            interval_ms=intervals_ms,
            fps_mean=_fps_mean(session, outputs, frames),
            per_second=per_second,
            fps_cv=_fps_cv(per_second),
            jitter_ms=spread.std if spread else None,
            interval_cv=spread.std / spread.mean if spread and spread.mean else None,
            amplification=(
                decode.frames_decoded / decode.frames_delivered if decode.frames_delivered else None
            ),
        )


def _ends_seconds(session: Session) -> NDArray[np.float64]:
    """Return the output time of each step since the start of the run, float64 [steps]."""
    started_ms = np.asarray(session.steps.started_ms, dtype=np.float64)
    total_ms = np.asarray(session.steps.total_ms, dtype=np.float64)
    return (started_ms + total_ms) / 1e3


def _startup_seconds(session: Session, ends: NDArray[np.float64]) -> float:
    if not len(ends):
        return session.wall_seconds
    if not session.warmup_steps:
        return session.steps.started_ms[0] / 1e3
    return float(ends[: session.warmup_steps][-1])


def _cost(session: Session, work: dict[str, NDArray[np.float64]]) -> Cost | None:
    if not all(map(len, work.values())) or not work:
        return None
    stages = {stage: float(column.mean()) for stage, column in work.items()}
    roles: dict[Role, float] = {}
    for stage in session.stages:
        roles[stage.role] = roles.get(stage.role, 0.0) + stages.get(stage.name, 0.0)
    return Cost(stages=stages, roles=roles)


def _latency(session: Session) -> Latency | None:
    newest = _ages(session, session.steps.arrived_ms)
    if newest is None or session.pace == "full_speed":
        return None
    oldest = _ages(session, session.steps.oldest_arrived_ms)
    return Latency(base=session.pace, ms=newest, oldest_ms=oldest)


def _ages(session: Session, arrived_ms: Sequence[float | None]) -> Distribution | None:
    """Return the ages at output of frames with these arrival times, without the warm-up."""
    if not arrived_ms:
        return None
    skip = session.warmup_steps
    ends = _ends_seconds(session)[skip:] * 1e3
    pairs = zip(ends.tolist(), arrived_ms[skip:], strict=True)
    return Distribution.of([end - arrived for end, arrived in pairs if arrived is not None])


def _stalls(session: Session, outputs: NDArray[np.float64]) -> Stalls | None:
    if session.pace == "full_speed" or len(outputs) < 2:
        return None
    gaps = np.diff(outputs)
    stalls = gaps[gaps > max(2 * float(np.median(gaps)), STALL_SECONDS)]
    return Stalls(count=len(stalls), seconds=float(stalls.sum()))


def _fps_mean(
    session: Session, outputs: NDArray[np.float64], frames: NDArray[np.int64]
) -> float | None:
    if session.kind == "extract" and len(outputs):
        # A step is a chunk of many frames, and several workers process chunks at the same time.
        seconds = float(outputs.max()) - min(session.steps.started_ms) / 1e3
        return float(frames.sum() / seconds) if seconds > 0 else None
    if len(outputs) < 2 or outputs[-1] <= outputs[0]:
        return None
    return float(frames[1:].sum() / (outputs[-1] - outputs[0]))


def _per_second(outputs: NDArray[np.float64], frames: NDArray[np.int64]) -> PerSecond | None:
    if not len(outputs):
        return None
    first, stop = int(np.ceil(outputs[0])), int(np.floor(outputs[-1]))
    if stop <= first:
        return None
    seconds = np.floor(outputs).astype(np.int64) - first
    inside = (seconds >= 0) & (seconds < stop - first)
    counts = np.bincount(seconds[inside], weights=frames[inside], minlength=stop - first)
    return PerSecond(first_second=first, counts=tuple(int(count) for count in counts))


def _fps_cv(per_second: PerSecond | None) -> float | None:
    if per_second is None or len(per_second.counts) < STABILITY_SECONDS:
        return None
    # The mean is 0 if a run stalls in all whole seconds.
    mean = float(np.mean(per_second.counts))
    return float(np.std(per_second.counts)) / mean if mean else None


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Bytes copied between CPU and GPU per frame output; fewer is better."""

    h2d_bytes: float
    """Host to device: frames or batches for the model."""
    d2h_bytes: float
    """Device to host: decoded frames, displayed frames and batches, but no results of a model."""

    @classmethod
    def of(cls, session: Session) -> Self | None:
        """Return the bytes; None without a GPU or without output."""
        stages = [stage for stage in session.stages if stage.moved_bytes]
        frames = sum(session.steps.frames)
        decodes_on_gpu = ":cuda:" in str(session.provenance.configuration.get("decode"))
        from_decoder = session.decode.brought_down_bytes
        if not frames or not (stages or decodes_on_gpu or from_decoder):
            return None
        d2h = sum(stage.moved_bytes for stage in stages if stage.moved_to == "cpu")
        h2d = sum(stage.moved_bytes for stage in stages) - d2h
        return cls(h2d_bytes=h2d / frames, d2h_bytes=(d2h + from_decoder) / frames)
