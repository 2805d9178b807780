"""Preprocessing benchmark: each level on CPU and GPU, with decoding and the model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, get_args

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import SuiteSpec, deferred
from headrace.bench.charts import Charts, bars
from headrace.bench.config import (
    PREP_ON_GPU,
    SMALL_MODEL,
    BatchSize,
    BenchmarkConfig,
    ModelName,
    Repeats,
    TurnSeconds,
    Weights,
)
from headrace.bench.variant_benchmark import (
    UNCERTAIN,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantRow,
    figure,
)
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column

Place = Literal["cpu", "1 thread", "gpu"]
"""Device of a step: the CPU with PyTorch's default threads (as in a run) or with one thread, or a
GPU."""
LEVELS: Final[tuple[PrepLevel, ...]] = get_args(PrepLevel)
DECODE: Final = "decode"
TRANSFER: Final = "transfer"
INFER: Final = "infer"
MOST_APART: Final = 4.0
"""Max difference in grey levels: a CPU resizes in integers, a GPU in float32; see
`preprocess.levels`."""
MEAN_APART: Final = 0.5
"""Max mean difference in grey levels."""


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig(BenchmarkConfig):
    """Options of `bench preprocess`."""

    one_video_of: ClassVar = "preprocess"
    model_name: ModelName = SMALL_MODEL
    """Light, so preprocessing matters, as it does with a GPU."""
    weights: Weights = "none"
    batch_size: BatchSize = 4
    """Small: the complex level of a large frame takes long."""
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3


class TimedStep(Record):
    """One timed step on one device."""

    way: str
    """Variant name: `medium, 1 thread`."""
    name: str
    """A level, or decode, transfer or infer."""
    place: Place


class Agreement(Record):
    """Difference of a level's tensors between the CPU and another device, in grey levels."""

    level: PrepLevel
    place: Place
    most: NonNegativeFloat
    mean: NonNegativeFloat


class PreprocessRecord(VariantRecord):
    """Repetitions of all steps."""

    model: str
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the decoded frames."""
    threads: PositiveInt
    """Intra-op threads on the CPU of steps other than `1 thread`."""
    steps: tuple[TimedStep, ...]
    compared: PositiveInt
    """Frames compared before timing, for each level and device."""
    agreement: tuple[Agreement, ...]


_USUAL: Final = "medium"
"""Level that matches the model's evaluation transform."""
_CHANGES: Final = {
    "cpu, 1 thread": Change(words="headrace run --threads 1", options={"threads": 1}),
    "gpu": PREP_ON_GPU,
}
"""Path → change of a run to use it."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """Steps of a frame from file to result."""

    name: str
    """Device of preprocessing, and the model's device if it differs."""
    rows: Rows[TimedStep]
    """Its steps, in order."""

    @property
    def ms(self) -> float:
        """Sum of its steps: the time of a frame without overlap."""
        return sum(row.ms.median for row in self.rows)


def _by_step(
    rows: Sequence[VariantRow[TimedStep]],
) -> dict[tuple[str, Place], VariantRow[TimedStep]]:
    return {(row.facts.name, row.facts.place): row for row in rows}


def paths(rows: Sequence[VariantRow[TimedStep]]) -> tuple[Path, ...]:
    """Return the paths with the usual level, the reference first."""
    by_step = _by_step(rows)
    steps: dict[str, tuple[tuple[str, Place], ...]] = {"cpu": ((_USUAL, "cpu"), (INFER, "cpu"))}
    if (INFER, "gpu") in by_step:
        steps = {
            "cpu, model on gpu": ((_USUAL, "cpu"), (TRANSFER, "gpu"), (INFER, "gpu")),
            "gpu": ((_USUAL, "gpu"), (INFER, "gpu")),
            **steps,
        }
    elif (INFER, "1 thread") in by_step:
        steps["cpu, 1 thread"] = ((_USUAL, "1 thread"), (INFER, "1 thread"))
    return tuple(
        Path(name=name, rows=(by_step[DECODE, "cpu"], *(by_step[step] for step in later)))
        for name, later in steps.items()
    )


def _answer(record: PreprocessRecord, rows: Rows[TimedStep]) -> tuple[Finding, ...]:
    base, *others = paths(rows)
    used = {row.variant: row for path in (base, *others) for row in path.rows}
    noise = record.noise(list(used.values()))
    levels = {row.facts.place: row.ms.median for row in rows if row.facts.name == _USUAL}
    cost = f"{decimal(levels['cpu'])} ms/frame on the CPU"
    if "gpu" in levels:
        cost = f"{decimal(levels['gpu'])} ms/frame on the GPU, {cost}"
    else:
        cost = f"{cost}, {percent(levels['cpu'] / base.ms)} of decode, transform and infer"
    headline = f"Preprocessing ({_USUAL}) takes {cost}"
    if noise.doubt:
        headline = f"{noise.doubt} how long preprocessing ({_USUAL}) takes; by the medians, {cost}"
    change, advice = _change(noise, base, others)
    evidence = (*_evidence(record, rows), *noise.sentences("Repetitions of one step"))
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _change(noise: NoiseCheck, base: Path, others: Sequence[Path]) -> tuple[str, Change]:
    """Return the fastest path as a sentence and as a value."""
    if noise.doubt:
        return AGAIN, UNCERTAIN
    best = min((base, *(p for p in others if p.name in _CHANGES)), key=lambda path: path.ms)
    evidence = f"decode, transform and infer: {decimal(best.ms)} ms against {decimal(base.ms)} ms"
    if best is base or best.ms > ALIKE * base.ms:
        return (
            f"No gain: no path is clearly faster than {base.name}.",
            Change(words=f"keep preprocessing on {base.name}", gain=1.0, evidence=evidence),
        )
    change, gain = _CHANGES[best.name], base.ms / best.ms
    return (
        f"{change.words}: a frame takes {decimal(best.ms)} ms instead of "
        f"{decimal(base.ms)}, {decimal(gain)} times as fast.",
        replace(change, gain=gain, evidence=evidence),
    )


def _evidence(record: PreprocessRecord, rows: Rows[TimedStep]) -> Iterator[str]:
    for path in paths(rows):
        steps = ", ".join(
            f"{'transform' if row.facts.name in LEVELS else row.facts.name} "
            f"{decimal(row.ms.median)}"
            for row in path.rows
        )
        yield f"A frame on {path.name}: {steps}; {decimal(path.ms)} ms in total."
    yield (
        "A run overlaps these steps, so the longest one limits its rate; the sum is the time of a "
        "single frame."
    )
    if all(step.place != "gpu" for step in record.steps):
        yield "PyTorch finds no GPU, so only the CPU was measured."
    if record.agreement:
        max_difference = max(agreed.most for agreed in record.agreement)
        yield (
            f"Before timing, the tensors of {counted(record.compared, 'frame')} were compared "
            f"between devices: they differ by at most {decimal(max_difference)} grey levels "
            f"(allowed: {MOST_APART:g}, {MEAN_APART:g} on average)."
        )


def _charts(rows: Rows[TimedStep]) -> Charts:
    by_step, frame_paths = _by_step(rows), paths(rows)
    devices = list(dict.fromkeys(row.facts.place for row in rows))
    names = list(dict.fromkeys(row.facts.name for row in rows))

    def ms_of(name: str) -> list[float]:
        return [
            sum(row.ms.median for row in path.rows if row.facts.name == name)
            for path in frame_paths
        ]

    steps = {"decode": DECODE, "transform": _USUAL, "transfer": TRANSFER, "infer": INFER}
    return (
        bars(
            [f"transform: {name}" if name in LEVELS else name for name in names],
            {
                device: [
                    by_step[name, device].ms if (name, device) in by_step else None
                    for name in names
                ]
                for device in devices
            },
            "ms per frame",
            name="steps",
            title="Decode, transform and infer",
            axis="step",
            reading="Time per frame of each step, run alone; transform by level. On a GPU, "
            "transform includes the transfer of frames.",
        ),
        bars(
            [path.name for path in frame_paths],
            {label: ms_of(name) for label, name in steps.items() if any(ms_of(name))},
            "ms per frame",
            name="paths",
            title="One frame, from file to result",
            axis="preprocessed on",
            is_stacked=True,
            reading=f"Medians, with level {_USUAL}: the time of a single frame.",
        ),
    )


PREPROCESS: Final = VariantBenchmark(
    name="preprocess",
    summary="Time each level of preprocessing on CPU and GPU, with decoding and the model.",
    config=PreprocessConfig,
    record=PreprocessRecord,
    prepare=deferred("preprocess_variants:prepare"),
    title=lambda record: (
        f"Decode, transform and infer: frames of {record.size[0]}x{record.size[1]}, {record.model}"
    ),
    reading=lambda record, rows: (
        "Medians over the repetitions; each step runs alone. On the CPU, PyTorch uses "
        f"{counted(record.threads, 'intra-op thread')}, or 1 where noted; decoding uses all cores. "
        "Levels: see headrace models --prep."
    ),
    facts=lambda record: {step.way: step for step in record.steps},
    columns=(
        Column("step", lambda row: row.facts.name),
        Column("device", lambda row: row.facts.place),
        figure("ms/frame", lambda row: row.ms.median),
        figure("min", lambda row: row.ms.lowest),
        figure("max", lambda row: row.ms.highest),
        figure("frames/s", lambda row: row.rate.median),
    ),
    answer=_answer,
    rates=None,
    charts=_charts,
    terms=SuiteSpec(seconds=45),
).benchmark()
