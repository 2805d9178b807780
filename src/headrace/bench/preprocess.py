"""Preprocessing benchmark: each level on CPU and GPU, beside decoding and the model."""

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
    """Light, so that preprocessing matters, as it does beside a GPU."""
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
    """Frames preprocessed by each level on each device and compared, before timing."""
    agreement: tuple[Agreement, ...]


_USUAL: Final = "medium"
"""Level that matches the model's evaluation transform."""
_CHANGES: Final = {
    "cpu, 1 thread": Change(words="--threads 1 of headrace run", options={"threads": 1}),
    "gpu": PREP_ON_GPU,
}
"""Path → change of options of a run for it."""


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
        Path(name=name, rows=(by_step[DECODE, "cpu"], *(by_step[step] for step in behind)))
        for name, behind in steps.items()
    )


def _answer(record: PreprocessRecord, rows: Rows[TimedStep]) -> tuple[Finding, ...]:
    base, *others = paths(rows)
    used = {row.variant: row for path in (base, *others) for row in path.rows}
    noise = record.noise(list(used.values()))
    levels = {row.facts.place: row.ms.median for row in rows if row.facts.name == _USUAL}
    takes = f"{decimal(levels['cpu'])} ms/frame on the CPU"
    if "gpu" in levels:
        takes = f"{decimal(levels['gpu'])} ms/frame on the GPU, {takes}"
    else:
        takes = f"{takes}, {percent(levels['cpu'] / base.ms)} of decode, transform and infer"
    headline = f"Preprocessing ({_USUAL}) takes {takes}"
    if noise.doubt:
        headline = f"{noise.doubt} what preprocessing takes; by the medians ({_USUAL}) {takes}"
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
            f"No gain is known: nothing here is clearly quicker than {base.name}.",
            Change(words=f"stay with preprocessing on {base.name}", gain=1.0, evidence=evidence),
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
        yield f"A frame on {path.name}: {steps}; together {decimal(path.ms)} ms."
    yield (
        "A run overlaps these steps and goes as fast as its longest one; the sum is what a frame "
        "takes when nothing else is under way."
    )
    if all(step.place != "gpu" for step in record.steps):
        yield "PyTorch sees no GPU here, so this is the CPU's half of the comparison."
    if record.agreement:
        max_difference = max(agreed.most for agreed in record.agreement)
        yield (
            f"{counted(record.compared, 'frame')} became the same tensors in every place, apart by "
            f"{decimal(max_difference)} grey levels at most, before anything was timed "
            f"({MOST_APART:g} are allowed, {MEAN_APART:g} in the mean)."
        )


def _charts(rows: Rows[TimedStep]) -> Charts:
    by_step, whole = _by_step(rows), paths(rows)
    devices = list(dict.fromkeys(row.facts.place for row in rows))
    names = list(dict.fromkeys(row.facts.name for row in rows))

    def spent(name: str) -> list[float]:
        return [sum(row.ms.median for row in p.rows if row.facts.name == name) for p in whole]

    of_a_path = {"decode": DECODE, "transform": _USUAL, "transfer": TRANSFER, "infer": INFER}
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
            reading="What a frame takes in each step, with the machine to itself; of transform the "
            "three levels. On a GPU, frames are carried there first, which counts as transform.",
        ),
        bars(
            [path.name for path in whole],
            {label: spent(name) for label, name in of_a_path.items() if any(spent(name))},
            "ms per frame",
            name="paths",
            title="One frame, from the file to the result",
            axis="preprocessed on",
            is_stacked=True,
            reading=f"Medians, with the level {_USUAL}: what a frame takes when nothing else is "
            "under way.",
        ),
    )


PREPROCESS: Final = VariantBenchmark(
    name="preprocess",
    summary="Time each level of preprocessing on CPU and GPU, beside decoding and the model.",
    config=PreprocessConfig,
    record=PreprocessRecord,
    prepare=deferred("preprocess_variants:prepare"),
    title=lambda record: (
        f"Decode, transform and infer: frames of {record.size[0]}x{record.size[1]}, {record.model}"
    ),
    reading=lambda record, rows: (
        "Medians over the repetitions, each step with the machine to itself. On the CPU PyTorch "
        f"uses {counted(record.threads, 'thread')} for one operation, or 1 where noted; "
        "decoding uses all cores. Levels are those of headrace models --prep."
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
