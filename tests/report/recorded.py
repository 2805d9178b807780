"""Simulated sessions: a pipeline of stages with bounded queues."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import numpy as np

from headrace.profiling.input_records import DecodeStats, GopLengths, SourceSummary
from headrace.profiling.provenance import Machine, Provenance
from headrace.profiling.run_records import QueueRecord, Role, Setup, StageRecord
from headrace.profiling.session import Session, Step, Steps

STAGES: Final[tuple[Role, ...]] = ("decode", "preprocess", "model", "sink")
QUEUE_NAMES: Final = STAGES[:-1]
"""A queue has the name of the stage that fills it."""
CAPACITY: Final = 4

MACHINE: Final = Machine(
    cpu="Example CPU 8-Core",
    physical_cores=8,
    logical_cores=16,
    usable_cores=8,
    memory_bytes=32 * 2**30,
    system="Debian GNU/Linux 12 (bookworm), Linux 6.12.0 x86_64",
    python="CPython 3.11.7",
    ffmpeg={"libavcodec": "62.28.102", "libavformat": "62.12.102", "libavutil": "60.26.102"},
)
SOURCE: Final = SourceSummary(
    path="videos/street.mp4",
    codec="h264",
    height=720,
    width=1280,
    frame_rate=Fraction(30000, 1001),
    frames=4500,
    duration_seconds=150.15,
    gop=GopLengths(minimum=12, mean=187.5, maximum=250),
    has_b_frames=True,
    is_vfr=False,
    rotation=0,
    counted_by="packets",
)


def record(
    means_ms: Sequence[float] = (70.0, 24.0, 230.0, 31.0),
    *,
    steps: int = 282,
    batch_size: int = 16,
    spread: float = 0.08,
    startup_ms: float = 2100.0,
    warmup_steps: int = 3,
    configuration: Mapping[str, str | int | float | bool | None] = {},
    **changes: Any,
) -> Session:
    """Return a complete session.

    Args:
        means_ms: Mean time of a step in decode, preprocess, model and sink.
        steps: Number of steps.
        batch_size: Frames per step.
        spread: Standard deviation of the logarithm of a service time.
        startup_ms: Start of the first step.
        warmup_steps: Number of warm-up steps, in which the model takes four times as long.
        configuration: Options that differ.
        changes: Fields of the session that differ.
    """
    in_video = max(SOURCE.frames, (steps - 1) * batch_size + 1)
    frames = min(steps * batch_size, in_video)
    line = _Line(means_ms, steps, spread, warmup_steps, startup_ms)
    provenance: dict[str, Any] = {
        "headrace": "0.1.0",
        "created": datetime(2026, 11, 21, 14, 3, 9, tzinfo=UTC),
        "commit": "0123456789ab",
        "pid": 4711,
        "command": ("headrace", "run", "videos/street.mp4", "--model", "resnet50"),
        "configuration": {
            "model": "resnet50",
            "device": "cpu",
            "batch_size": batch_size,
            **{"stride": 1, "prep_level": "medium", "annotate": True, "max_steps": None},
            **configuration,
        },
        "versions": {
            **{"python": "3.11.7", "headrace": "0.1.0", "torch": "2.15.0"},
            **{"torchvision": "0.29.2", "av": "18.1.0", "ffmpeg": "8.1.2"},
        },
        "machine": MACHINE,
    }
    provenance |= {name: changes.pop(name) for name in provenance if name in changes}
    fields: dict[str, Any] = {
        "provenance": Provenance(**provenance),
        "setup": Setup(
            **{
                name: value
                for name, value in provenance["configuration"].items()
                if name in Setup.model_fields and value is not None
            },
            draws_video=True,
        ),
        "inputs": (SOURCE.model_copy(update={"frames": in_video}),),
        "outcome": "complete",
        "wall_seconds": round(float(line.puts[-1].max()) / 1e3 + 0.12, 6) if steps else 0.4,
        "warmup_steps": warmup_steps,
        "steps": line.steps(batch_size, in_video),
        "stages": line.stages(),
        "queues": line.queues(),
        "decode": DecodeStats(
            **dict.fromkeys(("packets_read", "frames_decoded", "frames_delivered"), frames),
            **{"bytes_read": frames * 5203, "seeks": 0, "opens": 1},
        ),
        "outputs": ("predictions.jsonl", "M_resnet50_P_4711_metrics.csv", "report.html"),
    }
    return Session(**{**fields, **changes})


def changed(model: Any, **fields: Any) -> Any:
    """Return a record with changed fields."""
    return model.model_copy(update=fields)


def changed_all(models: Iterable[Any], **fields: Any) -> tuple[Any, ...]:
    """Return all records with changed fields."""
    return tuple(changed(model, **fields) for model in models)


def step_of(number: int = 0, *, frames: int = 1, **fields: Any) -> Step:
    """Return a step whose frames follow those of step `number - 1`; times default to 0."""
    plain = {"first_index": number * frames, "started_ms": 0.0, "total_ms": 0.0}
    return Step(**{"step": number, "frames": frames, **plain, **fields})


def queue_record(name: str, feeds: str, *, items: int, **fields: Any) -> QueueRecord:
    """Return the record of a queue with capacity 4 that all items passed."""
    plain = {"capacity": CAPACITY, "starved_seconds": 0.0, "blocked_seconds": 0.0}
    plain |= {"wait_ms_p50": None, "wait_ms_p95": None}
    return QueueRecord(
        **{"name": name, "feeds": feeds, "puts": items, "gets": items, **plain, **fields}
    )


def stage_record(
    name: str,
    role: Role | None = None,
    *,
    items: int = 0,
    workers: int = 1,
    seconds: Sequence[float] = (0.0, 0.0, 0.0),
    **more: Any,
) -> StageRecord:
    """Return the record of a stage; `seconds`: busy, starved, blocked."""
    waits = dict(zip(("busy_seconds", "starved_seconds", "blocked_seconds"), seconds, strict=True))
    return StageRecord(name=name, role=role or name, workers=workers, items=items, **waits, **more)


class _Line:
    """Times at which stages get, finish and put steps: float64 [stages, steps], in ms."""

    def __init__(
        self, means_ms: Sequence[float], steps: int, spread: float, warmup_steps: int, start: float
    ) -> None:
        factors = np.random.default_rng(7).lognormal(sigma=spread, size=(len(STAGES), steps))
        services = np.asarray(means_ms)[:, np.newaxis] * factors
        services[2, :warmup_steps] *= 4
        self.services = np.round(services, 6)
        self.gets, self.dones, self.puts = (np.zeros_like(services) for _ in range(3))
        gets, puts, last = self.gets, self.puts, len(STAGES) - 1
        for step in range(steps):
            for stage in range(len(STAGES)):
                arrived = puts[stage - 1, step] if stage else start
                gets[stage, step] = max(arrived, puts[stage, step - 1] if step else 0.0)
                done = self.dones[stage, step] = gets[stage, step] + self.services[stage, step]
                is_bounded = stage < last and step >= CAPACITY
                puts[stage, step] = max(done, gets[stage + 1, step - CAPACITY] if is_bounded else 0)

    def starved_seconds(self, place: int) -> float:
        return float((self.gets[place][1:] - self.puts[place][:-1]).sum()) / 1e3

    def steps(self, batch_size: int, in_video: int) -> Steps:
        return Steps.of(
            step_of(
                step,
                first_index=step * batch_size,
                frames=min(batch_size, in_video - step * batch_size),
                started_ms=round(self.gets[0, step], 6),
                work_ms=dict(zip(STAGES, self.services[:, step], strict=True)),
                total_ms=round(self.puts[-1, step] - self.gets[0, step], 6),
            )
            for step in range(self.services.shape[1])
        )

    def stages(self) -> tuple[StageRecord, ...]:
        return tuple(
            stage_record(
                name,
                items=self.services.shape[1],
                seconds=(
                    self.services[place].sum() / 1e3,
                    self.starved_seconds(place),
                    (self.puts[place] - self.dones[place]).sum() / 1e3,
                ),
            )
            for place, name in enumerate(STAGES)
        )

    def queues(self) -> tuple[QueueRecord, ...]:
        return tuple(self._queue(place, name) for place, name in enumerate(QUEUE_NAMES))

    def _queue(self, place: int, name: str) -> QueueRecord:
        entered, left = self.puts[place], self.gets[place + 1]
        waits = left - entered
        elapsed = float(left[-1]) if len(left) else 1.0
        inside = [int((entered <= moment).sum() - (left <= moment).sum()) for moment in entered]
        p50, p95 = (
            np.percentile(waits, share, method="inverted_cdf") if len(waits) else None
            for share in (50, 95)
        )
        return queue_record(
            **{"name": name, "feeds": STAGES[place + 1], "items": len(waits)},
            elapsed_seconds=elapsed / 1e3,
            occupancy_mean=waits.sum() / (CAPACITY * elapsed),
            occupancy_max=min(1.0, max(inside, default=0) / CAPACITY),
            starved_seconds=self.starved_seconds(place + 1),
            **{"wait_ms_p50": p50, "wait_ms_p95": p95},
        )
