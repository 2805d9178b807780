"""What `bench live` shows: each step, the limit, and what broke just above it."""

from dataclasses import dataclass
from typing import Final

from headrace.bench.benchmark import Benchmark
from headrace.bench.charts import chart, dashed, line, marks
from headrace.bench.ladder import highest_held, lowest_broken
from headrace.bench.live_capacity import (
    LatencySlo,
    LiveConfig,
    LiveRecord,
    LiveStep,
    announce,
    level_words,
    measure_live,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.interleaved import SAME_AGAIN, cores_of_others, disturbance
from headrace.profiling.findings.finding import Finding
from headrace.report.drawing import MARK, PLAIN, Chart
from headrace.report.experiment import Column
from headrace.report.numbers import decimal, milliseconds, percent, seconds


@dataclass(frozen=True, kw_only=True)
class LiveRow:
    """One step, as it is shown."""

    load: str
    """What was offered, in words."""
    step: LiveStep
    promised_ms: float
    """The p95 latency that was promised."""


def rows_of(record: LiveRecord) -> tuple[LiveRow, ...]:
    """Return a row for each step, as they were tried."""
    return tuple(
        LiveRow(load=level_words(record.search, step.level), step=step, promised_ms=record.p95_ms)
        for step in record.steps
    )


def _answer(record: LiveRecord, rows: tuple[LiveRow, ...]) -> tuple[Finding, ...]:
    steps = record.steps
    held, broken = highest_held(steps), lowest_broken(steps)
    promise = LatencySlo(p95_ms=record.p95_ms, max_drop=record.max_drop)
    evidence = [f"The promise: {promise.words}."]
    if held is not None:
        evidence.append(_room(record, held))
    if broken is not None:
        why = " and ".join(broken.broken_by)
        evidence.append(f"What broke at {level_words(record.search, broken.level)}: {why}.")
    if broken is not None and broken.work_ms:
        evidence.append(_slowest(broken))
    evidence += [
        f"The model was ready after {seconds(record.model_seconds)}, and the first second of each "
        "step is left out.",
        *_doubts(record, steps),
    ]
    headline, change = _verdict(record, held, broken)
    if broken is not None and _doubts(record, steps):
        headline = f"Other programs ran meanwhile, so it may be more. {headline}"
        change = f"{SAME_AGAIN}."
    return (Finding(headline=headline, evidence=tuple(evidence), change=change),)


def _verdict(
    record: LiveRecord, held: LiveStep | None, broken: LiveStep | None
) -> tuple[str, str | None]:
    if held is None:
        assert broken is not None
        lowest = level_words(record.search, broken.level)
        if broken.level > record.least:
            return (
                f"No load that was tried keeps the promise, down to {lowest}",
                "--steps with a larger number, to try lower ones.",
            )
        return (
            f"Even the lowest load, {lowest}, breaks the promise",
            "A lighter model (--model-name), --prep-level simple, or a promise that allows more.",
        )
    kept = level_words(record.search, held.level)
    if broken is None and held.level >= record.most:
        return f"All that can be tried keeps the promise, up to {kept}", None
    if broken is None:
        return (
            f"At least {kept} keep the promise; the limit was not reached",
            "--steps with a larger number.",
        )
    return (
        f"Up to {kept} keep the promise, {level_words(record.search, broken.level)} break it",
        None,
    )


def _room(record: LiveRecord, step: LiveStep) -> str:
    load = level_words(record.search, step.level)
    p95 = "" if step.latency_p95 is None else f"p95 latency {milliseconds(step.latency_p95)}, "
    return (
        f"At {load}: {p95}{percent(step.drop_share)} dropped, {decimal(step.fps)} frames/s came "
        f"out, processors {percent(step.cores)} of one core busy."
    )


def _slowest(step: LiveStep) -> str:
    stage = max(step.work_ms, key=lambda name: step.work_ms[name])
    return (
        f"The slowest stage was then {stage}: {milliseconds(step.work_ms[stage])} of work on a "
        f"batch, out of {milliseconds(sum(step.work_ms.values()))}."
    )


def _doubts(record: LiveRecord, steps: tuple[LiveStep, ...]) -> list[str]:
    others = cores_of_others(steps)
    return disturbance(others or 0.0, record.provenance.machine.usable_cores)


_OFFERED: Final = "frames/s offered, all streams together"


def _latency(rows: tuple[LiveRow, ...]) -> Chart:
    steps = [row.step for row in rows]
    loads = [step.offered_fps for step in steps]
    points = [
        marks(
            name,
            [step.offered_fps for step in steps if step.holds is holds],
            [step.latency_p95 for step in steps if step.holds is holds],
            hover="%{y:.1f} ms<extra>%{x:.1f} frames/s</extra>",
            size=11,
            color=color,
            symbol="circle" if holds else "x",
        )
        for name, holds, color in (("kept", True, PLAIN), ("broken", False, MARK))
    ]
    ends = {"x": [min(loads), max(loads)], "y": [rows[0].promised_ms] * 2}
    return chart(
        [*points, dashed(MARK, **ends, name="promised")],
        name="latency",
        title="p95 latency by load",
        reading="One mark for each step. Where frames are dropped, latency may stay low while the "
        "promise on drops is broken.",
        height=340,
        x=_OFFERED,
        y="p95 latency, ms",
    )


def _drops(rows: tuple[LiveRow, ...]) -> Chart:
    steps = sorted((row.step for row in rows), key=lambda step: step.offered_fps)
    loads, shares = [step.offered_fps for step in steps], [step.drop_share for step in steps]
    return chart(
        [line("dropped", loads, shares, hover="%{y:.1%}<extra>%{x:.1f} frames/s</extra>")],
        name="drops",
        title="Dropped frames by load",
        reading="Of the frames that were offered, the share that did not come out.",
        height=280,
        x=_OFFERED,
        y={"title_text": "dropped", "tickformat": "~p"},
    )


LIVE: Final[Benchmark[LiveConfig, LiveRecord, LiveRow]] = Benchmark(
    name="live",
    summary="Search the highest rate, or number of streams, that keeps a latency and drop promise.",
    config=LiveConfig,
    record=LiveRecord,
    measure=measure_live,
    announce=announce,
    title=lambda record: (
        f"What keeps p95 latency within {milliseconds(record.p95_ms)}: {record.search}, "
        f"from a video of {decimal(record.frame_rate)} frames/s"
    ),
    rows=rows_of,
    columns=(
        Column("load", lambda row: row.load),
        Column("frames/s", lambda row: decimal(row.step.fps)),
        Column("p50 ms", lambda row: decimal(row.step.latency_p50)),
        Column("p95 ms", lambda row: decimal(row.step.latency_p95)),
        Column("dropped", lambda row: percent(row.step.drop_share)),
        Column("CPU", lambda row: percent(row.step.cores)),
        Column("promise", lambda row: "kept" if row.step.holds else "broken"),
    ),
    reading=lambda record, rows: (
        "Steps as they were tried. Load is what was due, frames/s what came out, of all streams "
        "together; latency counts from when a frame was due until it had been shown. A load is "
        "doubled until it breaks the promise, then the limit is looked for in between, to "
        + ("one stream." if record.search == "streams" else "10 %.")
    ),
    answer=_answer,
    charts=lambda rows: (_latency(rows), _drops(rows)),
    names_machine=True,
    terms=Terms(config=lambda videos: LiveConfig(videos=videos, steps=8), seconds=50),
)
