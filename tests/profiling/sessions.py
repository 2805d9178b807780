"""Sessions of several kinds, built by hand or simulated: extractions, trainings, live runs."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.profiling.run_records import Accuracy, ItemCounts, TrainingRecord
from headrace.profiling.session import Session, Steps
from report.recorded import changed, record, stage_record, step_of

EXTRACTION = {"decode": "decode", "encode": "sink", "write": "sink"}
PROXIES = {"decode": "decode", "encode": "sink", "compare": "sink"}
TRAINING = {
    **{"data": "decode", "preprocess": "preprocess"},
    **dict.fromkeys(("forward", "backward", "optimizer"), "model"),
}
LEARNT = TrainingRecord(
    classes=("cat", "dog"),
    videos=8,
    frames=200,
    held_out_videos=2,
    trained_parameters=2562,
    accuracy=Accuracy(frames=64, right=48, most_frequent=40),
    head="head.pt",
)


def in_turn(
    roles: Mapping[str, str],
    work_ms: tuple[float, ...],
    *,
    steps: int,
    workers: int = 1,
    **of_step: Any,
) -> dict[str, Any]:
    """Return fields of a session with sequential parts; `of_step`: values or functions of k."""
    length = sum(work_ms)
    work = dict(zip(roles, work_ms, strict=True))
    rows = (
        step_of(
            number,
            first_index=0,
            started_ms=number // workers * length,
            work_ms=work,
            total_ms=length,
            **{
                name: value(number) if callable(value) else value for name, value in of_step.items()
            },
        )
        for number in range(steps)
    )
    stages = (
        stage_record(
            name, role, workers=workers, items=steps, seconds=(work[name] * steps / 1e3, 0, 0)
        )
        for name, role in roles.items()
    )
    return {"steps": Steps.of(rows), "stages": tuple(stages), "queues": ()}


def extracted(
    *work_ms: float,
    amplification: float = 1.0,
    roles: Mapping[str, str] = EXTRACTION,
    **configuration: Any,
) -> Session:
    """Return the session of two workers; `work_ms`: time of each part for a step of 8 pictures."""
    session = record(steps=100, configuration={"format": "png", "workers": None, **configuration})
    decoded = round(amplification * session.decode.frames_delivered)
    return changed(
        session,
        **in_turn(roles, work_ms, steps=100, workers=2, frames=lambda k: 8),
        kind="extract",
        warmup_steps=0,
        decode=changed(session.decode, frames_decoded=decoded),
    )


def trained(
    *work_ms: float, steps: int = 100, configuration: Mapping[str, Any] = {}, **changes: Any
) -> Session:
    """Return the session of a training with these parts; its loss halves every 10 steps."""
    parts = in_turn(
        TRAINING,
        work_ms,
        steps=steps,
        frames=lambda k: 16,
        loss=lambda k: math.log(2) * 0.5 ** (k / 10),
    )
    fields = {"kind": "retrain", "warmup_steps": 1, "training": LEARNT, **parts, **changes}
    return changed(record(steps=steps, configuration=configuration), **fields)


def live(
    latency_ms: Any = 20.0,
    *,
    stalled_after: int = 200,
    oldest_ms: float | None = None,
    captured_ms: float | None = None,
    dropped: Mapping[str, Mapping[str, int]] = {},
) -> Session:
    """Return a live session with a frame every 40 ms; `latency_ms`: number, or function of k."""
    plain = record((1, 1, 1, 1), steps=200, batch_size=1, spread=0, warmup_steps=0)
    rows = []
    for k, step in enumerate(plain.steps.rows()):
        started = 40.0 * k + (5_000 if k > stalled_after else 0)
        rows.append(
            replace(
                step,
                started_ms=started,
                total_ms=latency_ms(k) if callable(latency_ms) else latency_ms,
                arrived_ms=started,
                oldest_arrived_ms=None if oldest_ms is None else max(0.0, started - oldest_ms),
                capture_latency_ms=captured_ms,
            )
        )
    stages = [changed(stage, dropped=dropped.get(stage.name, {})) for stage in plain.stages]
    lost = sum(sum(causes.values()) for causes in dropped.values())
    items = ItemCounts(arrived=200 + lost, delivered=200, dropped=lost, in_flight=0)
    return changed(
        plain,
        **{"kind": "live", "pace": "arrival", "steps": Steps.of(rows)},
        stages=tuple(stages),
        items=items,
    )


def series(mean, seed, *, steps=200, correlation=0.5, spread=0.15):
    """Return float64 [steps]: log-normal values; `correlation` is that of neighbors."""
    noise = np.random.default_rng(seed).normal(size=steps + 50)
    states = np.zeros(steps + 50)
    for k in range(1, steps + 50):
        states[k] = correlation * states[k - 1] + np.sqrt(1 - correlation**2) * noise[k]
    return mean * np.exp(spread * states[50:] - spread**2 / 2)


def session(
    seed,
    *,
    decode_ms=30.0,
    model_ms=100.0,
    steps=200,
    batch_size=16,
    correlation=0.5,
    spread=0.15,
    **changes,
):
    """Return a session that is bound by the model."""
    means = {"decode": decode_ms, "preprocess": 10.0, "model": model_ms, "sink": 5.0}
    work = {
        name: series(mean, [seed, place], steps=steps, correlation=correlation, spread=spread)
        for place, (name, mean) in enumerate(means.items())
    }
    ends = np.cumsum(work["model"]) + 200
    rows = Steps.of(
        step_of(
            k,
            frames=batch_size,
            started_ms=float(ends[k] - 150),
            work_ms={name: float(column[k]) for name, column in work.items()},
            total_ms=150.0,
        )
        for k in range(steps)
    )
    return record(steps=1, batch_size=batch_size).model_copy(
        update={"steps": rows, "warmup_steps": 0, **changes}
    )
