"""What each level of preprocessing takes on the CPU and on a GPU, beside decoding and the model."""

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
from headrace.bench.variant_benchmark import (
    Rows,
    VariantBenchmark,
    VariantRow,
    VariantSet,
    figure,
)
from headrace.errors import BackendError
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent
from headrace.report.benchmark_page import Column
from headrace.report.drawing import Chart

_USUAL: Final = "medium"
"""The level that a model was evaluated with."""
_CHANGES: Final[dict[str, Change]] = {
    "1 thread": Change(words="--threads 1 of headrace run", options={"threads": 1}),
    "gpu": Change(
        words="--infer-on-gpu --prep-on-gpu of headrace run",
        options={"device": "cuda", "prep_on_gpu": True},
    ),
}


@contextmanager
def _prepared(config: PreprocessConfig, context: Context) -> Iterator[VariantSet[PreprocessRecord]]:
    """Prove that all places give the same tensors.

    Raises:
        ConfigError, MediaError: model or video cannot be had.
        BackendError: a GPU gives other tensors than the CPU.
    """
    import torch

    from headrace.bench.model_variants import hold_frames
    from headrace.bench.preprocess_variants import Steps
    from headrace.runs.run_options import ComputeOptions

    compute = ComputeOptions(
        model_name=config.model_name, weights=config.weights, batch_size=config.batch_size
    )
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    steps = Steps(compute, held, config.seconds, context.clock)
    agreement = tuple(steps.agreement())
    for each in agreement:
        if each.most > MOST_APART or each.mean > MEAN_APART:
            raise BackendError(
                f"preprocessing ({each.level}) gives other tensors on {each.place} than on the "
                f"CPU: apart by {each.most:.2g} grey levels, {each.mean:.2g} in the mean, and "
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
            size=held.index.info.upright_size,
            threads=torch.get_num_threads(),
            steps=tuple(step for step, _ in variants),
            compared=len(held.batches),
            agreement=agreement,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Path:
    """A frame's way from the file to the result."""

    name: str
    """Where it is preprocessed, and where the model runs if that is elsewhere."""
    rows: Rows[TimedStep]
    """Its steps, in order."""
    change: Change | None = None
    """What makes a run go this way; None for the one that the others are compared with."""

    @property
    def ms(self) -> float:
        """Sum of its steps: what one frame takes when nothing else is under way."""
        return sum(row.ms.median for row in self.rows)


def _by_step(
    rows: Sequence[VariantRow[TimedStep]],
) -> dict[tuple[str, Place], VariantRow[TimedStep]]:
    return {(row.facts.name, row.facts.place): row for row in rows}


def paths(rows: Sequence[VariantRow[TimedStep]], level: str = _USUAL) -> tuple[Path, ...]:
    """Return the ways there are with a level, first the one that the others are compared with."""
    found = _by_step(rows)

    def path(name: str, *steps: tuple[str, Place], change: Change | None = None) -> Path:
        decode = found[DECODE, "cpu"]
        return Path(name=name, rows=(decode, *(found[step] for step in steps)), change=change)

    on_cpu = path("cpu", (level, "cpu"), (INFER, "cpu"))
    if (INFER, "gpu") in found:
        return (
            path("cpu, model on gpu", (level, "cpu"), (TRANSFER, "gpu"), (INFER, "gpu")),
            path("gpu", (level, "gpu"), (INFER, "gpu"), change=_CHANGES["gpu"]),
            on_cpu,
        )
    if (INFER, "1 thread") not in found:
        return (on_cpu,)
    change = _CHANGES["1 thread"]
    return (
        on_cpu,
        path("cpu, 1 thread", (level, "1 thread"), (INFER, "1 thread"), change=change),
    )


def _answer(record: PreprocessRecord, rows: Rows[TimedStep]) -> tuple[Finding, ...]:
    base, *others = paths(rows)
    used = {row.variant: row for path in (base, *others) for row in path.rows}
    trust = record.trust(list(used.values()))
    levels = {row.facts.place: row.ms.median for row in rows if row.facts.name == _USUAL}
    takes = f"{decimal(levels['cpu'])} ms/frame on the CPU"
    if "gpu" in levels:
        takes = f"{decimal(levels['gpu'])} ms/frame on the GPU, {takes}"
    else:
        takes = f"{takes}, {percent(levels['cpu'] / base.ms)} of decode, transform and infer"
    headline = f"Preprocessing ({_USUAL}) takes {takes}"
    if trust.doubt:
        headline = f"{trust.doubt} what preprocessing takes; by the medians ({_USUAL}) {takes}"
    change, advice = _change(trust, base, others)
    evidence = (*_evidence(record, rows), *trust.sentences("Repetitions of one step"))
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _change(trust: NoiseCheck, base: Path, others: Sequence[Path]) -> tuple[str, Change]:
    """Return the quickest path as a sentence and as a value."""
    best = min((base, *(path for path in others if path.change)), key=lambda path: path.ms)
    if trust.doubt:
        return AGAIN, Change(words=AGAIN.rstrip("."), evidence="turns that cannot be told apart")
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
        most = max(each.most for each in record.agreement)
        yield (
            f"{counted(record.compared, 'frame')} became the same tensors in every place, apart by "
            f"{decimal(most)} grey levels at most, before anything was timed ({MOST_APART:g} are "
            f"allowed, {MEAN_APART:g} in the mean)."
        )


def _charts(rows: Rows[TimedStep]) -> tuple[Chart, ...]:
    found, whole = _by_step(rows), paths(rows)
    places = list(dict.fromkeys(row.facts.place for row in rows))
    names = list(dict.fromkeys(row.facts.name for row in rows))

    def spent(name: str) -> list[float]:
        return [sum(row.ms.median for row in p.rows if row.facts.name == name) for p in whole]

    of_a_path = {"decode": DECODE, "transform": _USUAL, "transfer": TRANSFER, "infer": INFER}
    return (
        bars(
            [f"transform: {name}" if name in LEVELS else name for name in names],
            {
                place: [found[name, place].ms if (name, place) in found else None for name in names]
                for place in places
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
    prepare=_prepared,
    title=lambda record: (
        f"Decode, transform and infer: frames of {record.size[0]}x{record.size[1]}, {record.model}"
    ),
    reading=lambda record, rows: (
        f"Medians over the turns, each step with the machine to itself. On the CPU PyTorch uses "
        f"{counted(record.threads, 'thread')} for one operation, or 1 where that is said; decoding "
        "uses all cores. Levels are those of headrace models --prep."
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
