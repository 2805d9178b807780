"""Metrics of a session: the definition of each figure, and the table of the steps.

Warm-up steps are left out. A step is *output* when it leaves the sink, with all its frames at
once. Standard deviations are population standard deviations (divided by n).
"""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.run_records import ROLES, Role
from headrace.profiling.session import Pace, Session, Step
from headrace.runtime.clock import iso_text
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


def latency_start(session: Session) -> str:
    """Return the start of the latency in words: `arrival`, `due time`, `capture`."""
    return "due time" if session.pace == "schedule" else session.pace


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
        ends = (np.asarray(steps.started_ms) + np.asarray(steps.total_ms)) / 1e3
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
            latency=_latency(session, outputs),
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


def _latency(session: Session, outputs: NDArray[np.float64]) -> Latency | None:
    newest = _ages(session, outputs, session.steps.arrived_ms)
    if newest is None or session.pace == "full_speed":
        return None
    oldest = _ages(session, outputs, session.steps.oldest_arrived_ms)
    return Latency(base=session.pace, ms=newest, oldest_ms=oldest)


def _ages(
    session: Session, outputs: NDArray[np.float64], arrived_ms: Sequence[float | None]
) -> Distribution | None:
    """Return the ages at output of frames with these arrival times, without the warm-up."""
    if not arrived_ms:
        return None
    pairs = zip((outputs * 1e3).tolist(), arrived_ms[session.warmup_steps :], strict=True)
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


_ALWAYS: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""Roles that have a column in every table, because other tools expect it."""
_MAX_MODEL_NAME: Final = 100
"""Max characters of the model in a file name."""
Value = Callable[[Session, Step], object]
"""Returns the value of a column for a step; None: empty."""


def _wall_time(session: Session, milliseconds: float) -> str:
    assert session.started is not None
    return iso_text(session.started + timedelta(milliseconds=milliseconds))


def _capture_time(session: Session, step: Step) -> str | None:
    if step.capture_latency_ms is None:
        return None
    return _wall_time(session, step.ended_ms - step.capture_latency_ms)


_STEP_COLUMNS: Final[dict[str, Value]] = {
    "total_step_latency_ms": lambda session, step: f"{step.total_ms:.3f}",
    "loss": lambda session, step: None if step.loss is None else f"{step.loss:.6g}",
    "first_index": lambda session, step: step.first_index,
    "frames": lambda session, step: step.frames,
}
"""Columns of every table that are not of a role."""
LIVE_COLUMNS: Final[dict[str, Value]] = {
    "source": lambda session, step: session.sources[step.input].name,
    "segment": lambda session, step: step.segment,
    "arrival_time": lambda session, step: _wall_time(session, step.arrived_ms or 0.0),
    "capture_time": _capture_time,
}
"""Columns of a live session; empty for steps with frames of several sources."""


def metrics_columns(session: Session) -> dict[str, Value]:
    """Return column → its value for a step; columns that other tools read come first.

    The last columns of a training are forward, backward and optimizer, the parts of `exec`. The
    last columns of a live session are source, segment, and wall-clock times of arrival and capture;
    they are empty if unknown, and for steps with frames of several sources. `Step` documents the
    values. Names end in `_latency_ms` because other tools expect it, although a stage at full speed
    only has a service time.
    """
    stages = {role: [s.name for s in session.stages if s.role == role] for role in ROLES}
    always = {_name(role): _work(stages[role]) for role in _ALWAYS}
    others = {_name(stage.role): _work(stages[stage.role]) for stage in session.stages}
    parts = [stage.name for stage in session.stages if len(stages[stage.role]) > 1]
    return {
        "step": lambda session, step: step.step,
        **always,
        **_STEP_COLUMNS,
        **{name: value for name, value in others.items() if name not in always},
        "started_ms": lambda session, step: f"{step.started_ms:.3f}",
        "input": lambda session, step: step.input,
        "queue_latency_ms": lambda session, step: f"{step.queued_ms:.3f}",
        **{f"{name}_latency_ms": _work([name]) for name in parts if session.kind == "retrain"},
        **{name: _one_source(value) for name, value in LIVE_COLUMNS.items() if session.started},
    }


def metrics_csv(session: Session) -> str:
    """Return a table with one line per step, warm-up included; columns: see `metrics_columns`.

    Times have a precision of one microsecond. `loss` is empty at inference, and the time of a role
    is empty if no stage has the role.
    """
    table, columns = io.StringIO(), metrics_columns(session)
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    for step in session.steps.rows():
        writer.writerow(value(session, step) for value in columns.values())
    return table.getvalue()


def _name(role: Role) -> str:
    return f"{ROLES[role].column}_latency_ms"


def _work(stages: Sequence[str]) -> Value:
    """Return the column with the sum of the work of `stages`; empty without stages."""

    def value(session: Session, step: Step) -> str | None:
        return f"{sum(step.work_ms.get(name, 0.0) for name in stages):.3f}" if stages else None

    return value


def _one_source(value: Value) -> Value:
    """Return the column `value`, but empty for steps with frames of several sources."""

    def of_one_source(session: Session, step: Step) -> object:
        has_one_source = step.arrived_ms is not None and step.segment is not None
        return value(session, step) if has_one_source else None

    return of_one_source


def metrics_file_name(model: str, process_id: int) -> str:
    """`M_{model}_P_{process_id}_metrics.csv`; unsafe characters are replaced by underscores.

    >>> metrics_file_name("hub/resnet50:layer3", 4711)
    'M_hub_resnet50_layer3_P_4711_metrics.csv'
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("._")[:_MAX_MODEL_NAME]
    return f"M_{safe or 'model'}_P_{process_id}_metrics.csv"
