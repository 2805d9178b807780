"""Preprocessing benchmark: each level on CPU and GPU, beside decoding and the model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from headrace.bench.benchmark import Context
from headrace.bench.charts import bars
from headrace.bench.preprocess_record import (
    DECODE,
    INFER,
    LEVELS,
    MEAN_APART,
    MOST_APART,
    TRANSFER,
    Place,
    PreprocessConfig,
    PreprocessRecord,
    TimedStep,
)
from headrace.bench.suite.suite_spec import SuiteSpec
from headrace.bench.variant_benchmark import Rows, VariantBenchmark, VariantRow, VariantSet, figure
from headrace.errors import BackendError
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent
from headrace.report.benchmark_page import Column
from headrace.report.drawing import Chart

_USUAL: Final = "medium"
"""Level that matches the model's evaluation transform."""
_CHANGES: Final[dict[str, Change]] = {
    "1 thread": Change(words="--threads 1 of headrace run", options={"threads": 1}),
    "gpu": Change(
        words="--infer-on-gpu --prep-on-gpu of headrace run",
        options={"device": "cuda", "prep_on_gpu": True},
    ),
}


@contextmanager
def _prepare(config: PreprocessConfig, context: Context) -> Iterator[VariantSet[PreprocessRecord]]:
    """Prove equal tensors on all devices.

    Raises:
        ConfigError, MediaError: model or video is not available.
        BackendError: tensors differ between GPU and CPU.
    """
    import torch

    from headrace.bench.model_variants import hold_frames
    from headrace.bench.preprocess_variants import Steps
    from headrace.runs.run_options import ComputeOptions

    compute = ComputeOptions(
        model_name=config.model_name, weights=config.weights, batch_size=config.batch_size
    )
    cached = hold_frames(config.videos[0], config.batch_size, context.store)
    steps = Steps(compute, cached, config.seconds, context.clock)
    agreement = tuple(steps.agreement())
    for agreed in agreement:
        if agreed.most > MOST_APART or agreed.mean > MEAN_APART:
            raise BackendError(
                f"preprocessing ({agreed.level}) gives other tensors on {agreed.place} than on the "
                f"CPU: apart by {agreed.most:.2g} grey levels, {agreed.mean:.2g} in the mean, and "
                f"{MOST_APART:g} and {MEAN_APART:g} are allowed, so nothing was timed; preprocess "
                "on the CPU"
            )
    variants = steps.variants()
    yield VariantSet(
        variants={step.way: work for step, work in variants},
        settled=steps.settled,
        record=partial(
            PreprocessRecord,
            model=config.model_name,
            size=cached.index.info.upright_size,
            threads=torch.get_num_threads(),
            steps=tuple(step for step, _ in variants),
            compared=len(cached.batches),
            agreement=agreement,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Path:
    """Steps of a frame from file to result."""

    name: str
    """Device of preprocessing, and the model's device if it differs."""
    rows: Rows[TimedStep]
    """Its steps, in order."""
    change: Change | None = None
    """Change of options of a run for this path; None: the reference."""

    @property
    def ms(self) -> float:
        """Sum of its steps: the time of a frame without overlap."""
        return sum(row.ms.median for row in self.rows)


def _by_step(
    rows: Sequence[VariantRow[TimedStep]],
) -> dict[tuple[str, Place], VariantRow[TimedStep]]:
    return {(row.facts.name, row.facts.place): row for row in rows}


def paths(rows: Sequence[VariantRow[TimedStep]], level: str = _USUAL) -> tuple[Path, ...]:
    """Return the paths with a level, the reference first."""
    by_step = _by_step(rows)

    def path(name: str, *steps: tuple[str, Place], change: Change | None = None) -> Path:
        decode = by_step[DECODE, "cpu"]
        return Path(name=name, rows=(decode, *(by_step[step] for step in steps)), change=change)

    on_cpu = path("cpu", (level, "cpu"), (INFER, "cpu"))
    if (INFER, "gpu") in by_step:
        return (
            path("cpu, model on gpu", (level, "cpu"), (TRANSFER, "gpu"), (INFER, "gpu")),
            path("gpu", (level, "gpu"), (INFER, "gpu"), change=_CHANGES["gpu"]),
            on_cpu,
        )
    if (INFER, "1 thread") not in by_step:
        return (on_cpu,)
    change = _CHANGES["1 thread"]
    return (on_cpu, path("cpu, 1 thread", (level, "1 thread"), (INFER, "1 thread"), change=change))


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
    best = min((base, *(path for path in others if path.change)), key=lambda path: path.ms)
    if noise.doubt:
        return AGAIN, Change(
            words=AGAIN.rstrip("."), evidence="repetitions that cannot be told apart"
        )
    evidence = f"decode, transform and infer: {decimal(best.ms)} ms against {decimal(base.ms)} ms"
    if best.change is None or best.ms > ALIKE * base.ms:
        return (
            f"No gain is known: nothing here is clearly quicker than {base.name}.",
            Change(words=f"stay with preprocessing on {base.name}", gain=1.0, evidence=evidence),
        )
    gain = base.ms / best.ms
    return (
        f"{best.change.words}: a frame takes {decimal(best.ms)} ms instead of "
        f"{decimal(base.ms)}, {decimal(gain)} times as fast.",
        replace(best.change, gain=gain, evidence=evidence),
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


def _charts(rows: Rows[TimedStep]) -> tuple[Chart, ...]:
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
    prepare=_prepare,
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
