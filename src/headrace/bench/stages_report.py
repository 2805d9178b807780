"""What `bench stages` shows: rows, answer and chart, from its record alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.bench.benchmark import Benchmark
from headrace.bench.charts import chart, marks
from headrace.bench.stages import (
    COMPARED,
    TRACE,
    Bound,
    StagesConfig,
    StagesRecord,
    StagesRow,
    measure_stages,
    rows_of,
    work_of,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.decode_counts import rate_columns
from headrace.measuring.interleaved import AGAIN, Trust
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.findings.lighter import (
    larger_copies,
    lighter_preprocessing,
    smaller_model,
    smaller_video,
)
from headrace.profiling.stages import ROLES
from headrace.report.drawing import MARK, ROLE_COLORS, Chart, bar
from headrace.report.experiment import Column
from headrace.report.numbers import TOO_SMALL, counted, decimal, percent, ratio, seconds


def _answer(record: StagesRecord, rows: tuple[StagesRow, ...]) -> tuple[Finding, ...]:
    cores = record.provenance.machine.usable_cores
    trust, bound = Trust.of(rows, cores), Bound.of(rows, cores)
    top = max(rows, key=lambda row: row.ms)
    change = _change(record, rows, bound)
    evidence = [
        *([f"By the medians {_ratio(rows)}."] if trust.doubt else []),
        _sequence(rows),
        *([] if trust.doubt else [_limit(rows, bound, cores)]),
        *([_ON_GPU] if record.setup.device != "cpu" else []),
        f"The model was ready after {seconds(record.model_seconds)}; that, and the batches of "
        "about a second before the first turn, are left out.",
        *_trace(record),
        *trust.sentences("Turns of one stage"),
    ]
    return (
        Finding(
            headline=_headline(rows, top, trust),
            bound_by=() if trust.doubt else (bound.role,),
            evidence=tuple(evidence),
            change=AGAIN if trust.doubt else str(change),
            advice=None if trust.doubt else change,
        ),
    )


def _headline(rows: Sequence[StagesRow], top: StagesRow, trust: Trust) -> str:
    phrase = ROLES[top.role].phrase
    costs = f"{phrase}, {percent(top.share)} of what a frame takes"
    if not trust.doubt:
        return f"Costliest in sequence is {costs}; {_ratio(rows)}"
    is_clear = all(top.rate.highest < row.rate.lowest for row in rows if row is not top)
    if is_clear and trust.spread > 0:  # of more than one turn
        return f"Costliest in sequence is {phrase}, in every turn. {trust.doubt} by how much"
    return f"{trust.doubt} which stage is the costliest; by the medians {costs}"


def _ratio(rows: Sequence[StagesRow]) -> str:
    parts = {row.role: row.parts for row in rows}
    return f"L_dec : L_prep : L_inf = {ratio(tuple(parts[role] for role in COMPARED))}"


def _sequence(rows: Sequence[StagesRow]) -> str:
    whole = sum(row.ms for row in rows)
    spent = ", ".join(f"{row.role} {decimal(row.ms)}" for row in rows)
    return (
        f"One after the other a frame takes {spent} ms: {decimal(whole)} ms, "
        f"{decimal(1e3 / whole)} frames/s."
    )


def _limit(rows: Sequence[StagesRow], bound: Bound, cores: int) -> str:
    phrase = ROLES[bound.role].phrase
    by = f"by {phrase}"
    if bound.is_cores:
        took = next(row.cpu_ms for row in rows if row.role == bound.role)
        share = percent(took / sum(row.cpu_ms for row in rows))
        by = f"by the {counted(cores, 'core')}, {share} of whose time {phrase} takes"
    gain = sum(row.ms for row in rows) / bound.ms
    return (
        "A run overlaps its stages, and decodes in a thread for each core: at best "
        f"{decimal(bound.rate)} frames/s, {decimal(gain)} times as fast, bound {by}; what it "
        "writes comes on top."
    )


_ON_GPU: Final = (
    "Times are those of the host's clock: a transfer ends when its event has come, the model "
    "when its labels are on the CPU, so that all the work on the GPU is in them."
)


def _trace(record: StagesRecord) -> list[str]:
    if not record.traced:
        return []
    return [
        f"A trace of {record.traced} more batches, for ui.perfetto.dev: {TRACE}. The profiler was "
        "off while the times above were taken."
    ]


def _change(record: StagesRecord, rows: Sequence[StagesRow], bound: Bound) -> Change:
    row = next(row for row in rows if row.role == bound.role)
    took = (
        f"{decimal(row.cpu_ms)} ms of processor time" if bound.is_cores else f"{decimal(row.ms)} ms"
    )
    setup, most = record.setup, bound.most
    change = {
        "decode": smaller_video(record.size, most=most),
        "preprocess": lighter_preprocessing(setup, most=most),
        "transfer": larger_copies(setup, most=most),
        "model": smaller_model(setup, most=most),
    }[row.role]
    return replace(change, rests_on=f"{ROLES[row.role].phrase} takes {took} a frame")


def _chart(rows: tuple[StagesRow, ...]) -> Chart:
    names = [row.role for row in rows]
    bars = bar(
        x=names,
        y=[row.ms for row in rows],
        color=[ROLE_COLORS[row.role] for row in rows],
        name="median",
        text=[percent(row.share) for row in rows],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y:.2f} ms<extra>%{x}</extra>",
    )
    known = [row for row in rows if row.p95_ms is not None]
    p95 = marks(
        "p95",
        [row.role for row in known],
        [row.p95_ms for row in known],
        hover="p95 %{y:.2f} ms<extra>%{x}</extra>",
        size=12,
        symbol="line-ew-open",
        color=MARK,
        line={"width": 2.5},
    )
    return chart(
        [bars, p95],
        name="stages",
        title="What each stage takes of a frame, alone",
        reading="Medians over the batches, one stage at a time; the percentages are shares of "
        f"their sum{', and the dashes the p95' if known else ''}.",
        height=340,
        x="stage",
        y="ms per frame",
        is_wide=False,
        bargap=0.5,
    )


def _reading(record: StagesRecord, rows: tuple[StagesRow, ...]) -> str:
    batches, frames = rows[0].batches, record.setup.batch_size
    return (
        f"Milliseconds per frame, medians over {batches:,} batches of {counted(frames, 'frame')}; "
        "one stage works at a time, in one thread, with the profiler off. Parts are counted in "
        "what the least of decode, preprocess and model takes. CPU is processor time: more than "
        "the time itself where several cores work. Slowest and fastest are frames per second of "
        "the stage alone, by turns."
    )


STAGES: Final[Benchmark[StagesConfig, StagesRecord, StagesRow]] = Benchmark(
    name="stages",
    summary="Time decode, preprocess and model one at a time; give their ratio and a trace.",
    config=StagesConfig,
    record=StagesRecord,
    measure=measure_stages,
    title=lambda record: (
        f"Time by stage: {record.setup.model}, a video of {record.size[0]}×{record.size[1]}, "
        f"batches of {record.setup.batch_size}"
    ),
    rows=rows_of,
    columns=(
        Column("stage", lambda row: row.role),
        Column("ms", lambda row: decimal(row.ms)),
        Column("p95 ms", lambda row: decimal(row.p95_ms, TOO_SMALL)),
        Column("share", lambda row: percent(row.share)),
        Column("parts", lambda row: f"{row.parts:,.1f}"),
        Column("CPU ms", lambda row: decimal(row.cpu_ms)),
        *rate_columns("frames/s"),
    ),
    reading=_reading,
    answer=_answer,
    charts=lambda rows: (_chart(rows),),
    names_machine=True,
    terms=Terms(
        config=lambda videos: StagesConfig(videos=videos[:1], repeats=3),
        seconds=40,
        work=lambda record: work_of(rows_of(record)),
    ),
)
