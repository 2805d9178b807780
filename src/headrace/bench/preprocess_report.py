"""What bench preprocess shows: rows, answer and charts, from its record alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import stacked_bars, way_bars
from headrace.bench.contest import ContestRow, contest_rows
from headrace.bench.preprocess import (
    PreprocessConfig,
    PreprocessRecord,
    measure_preprocess,
)
from headrace.bench.preprocess_steps import (
    DECODE,
    INFER,
    LEVELS,
    MEAN_APART,
    MOST_APART,
    TRANSFER,
    Place,
    Step,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.interleaved import AGAIN, ALIKE, Spread, Trust
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import Chart
from headrace.report.experiment import Column
from headrace.report.numbers import counted, decimal, percent

_USUAL: Final = "medium"
"""The level that a model was evaluated with."""
_CHANGES: Final[dict[str, Change]] = {
    "1 thread": Change(words="--threads 1 of headrace run", options={"threads": 1}),
    "gpu": Change(
        words="--infer-on-gpu --prep-on-gpu of headrace run",
        options={"device": "cuda", "prep_on_gpu": True},
    ),
}


@dataclass(frozen=True, kw_only=True)
class PreprocessRow(ContestRow):
    """One step in one place."""

    step: Step

    @property
    def ms(self) -> Spread:
        """Milliseconds of a frame."""
        return Spread(
            median=1e3 / self.rate.median,
            lowest=1e3 / self.rate.highest,
            highest=1e3 / self.rate.lowest,
        )


def rows_of(record: PreprocessRecord) -> tuple[PreprocessRow, ...]:
    """Return a row for each step in each place."""
    steps = {step.way: step for step in record.steps}
    return tuple(PreprocessRow(**vars(row), step=steps[row.way]) for row in contest_rows(record))


@dataclass(frozen=True, kw_only=True)
class Path:
    """A frame's way from the file to the result."""

    name: str
    """Where it is preprocessed, and where the model runs if that is elsewhere."""
    rows: tuple[PreprocessRow, ...]
    """Its steps, in order."""
    change: Change | None = None
    """What makes a run go this way; None for the one that the others are compared with."""

    @property
    def ms(self) -> float:
        """Sum of its steps: what one frame takes when nothing else is under way."""
        return sum(row.ms.median for row in self.rows)


def paths(rows: Sequence[PreprocessRow], level: str = _USUAL) -> tuple[Path, ...]:
    """Return the ways there are with a level, first the one that the others are compared with."""
    found = {(row.step.name, row.step.place): row for row in rows}
    decode = found[DECODE, "cpu"]

    def path(name: str, steps: Sequence[tuple[str, Place]], change: Change | None = None) -> Path:
        return Path(name=name, rows=(decode, *(found[step] for step in steps)), change=change)

    on_cpu = path("cpu", [(level, "cpu"), (INFER, "cpu")])
    if (INFER, "gpu") in found:
        return (
            path("cpu, model on gpu", [(level, "cpu"), (TRANSFER, "gpu"), (INFER, "gpu")]),
            path("gpu", [(level, "gpu"), (INFER, "gpu")], _CHANGES["gpu"]),
            on_cpu,
        )
    if (INFER, "1 thread") not in found:
        return (on_cpu,)
    single = path("cpu, 1 thread", [(level, "1 thread"), (INFER, "1 thread")], _CHANGES["1 thread"])
    return (on_cpu, single)


def _answer(record: PreprocessRecord, rows: tuple[PreprocessRow, ...]) -> tuple[Finding, ...]:
    base, *others = paths(rows)
    used = {row.way: row for path in (base, *others) for row in path.rows}
    trust = Trust.of(list(used.values()), record.provenance.machine.usable_cores)
    has_gpu = any(step.place == "gpu" for step in record.steps)
    levels = {row.step.place: row for row in rows if row.step.name == _USUAL}
    takes = f"{decimal(levels['cpu'].ms.median)} ms a frame on the CPU"
    if has_gpu:
        takes = f"{decimal(levels['gpu'].ms.median)} ms a frame on the GPU, {takes}"
    else:
        share = percent(levels["cpu"].ms.median / base.ms)
        takes = f"{takes}, {share} of decode, transform and infer"
    headline = f"Preprocessing ({_USUAL}) takes {takes}"
    if trust.doubt:
        headline = f"{trust.doubt} what preprocessing takes; by the medians ({_USUAL}) {takes}"
    change, advice = _change(trust, base, others)
    evidence = (*_evidence(record, rows), *trust.sentences("Turns of one step"))
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _change(trust: Trust, base: Path, others: Sequence[Path]) -> tuple[str, Change]:
    """Return the quickest path as a sentence and as a value."""
    best = min((base, *(path for path in others if path.change)), key=lambda path: path.ms)
    if trust.doubt:
        return AGAIN, Change(words=AGAIN.rstrip("."), rests_on="turns that cannot be told apart")
    rests_on = f"decode, transform and infer: {decimal(best.ms)} ms against {decimal(base.ms)} ms"
    if best.change is None or best.ms > ALIKE * base.ms:
        return (
            f"No gain is known: nothing here is clearly quicker than {base.name}.",
            Change(words=f"stay with preprocessing on {base.name}", gain=1.0, rests_on=rests_on),
        )
    gain = base.ms / best.ms
    return (
        f"{best.change.words}: a frame takes {decimal(best.ms)} ms instead of "
        f"{decimal(base.ms)}, {decimal(gain)} times as fast.",
        replace(best.change, gain=gain, rests_on=rests_on),
    )


def _evidence(record: PreprocessRecord, rows: Sequence[PreprocessRow]) -> Iterator[str]:
    for path in paths(rows):
        steps = ", ".join(f"{_said(row.step.name)} {decimal(row.ms.median)}" for row in path.rows)
        yield f"A frame on {path.name}: {steps}; together {decimal(path.ms)} ms."
    yield (
        "A run overlaps these steps and goes as fast as its longest one; the sum is what a frame "
        "takes when nothing else is under way."
    )
    places = {step.place for step in record.steps}
    if "gpu" not in places:
        yield "PyTorch sees no GPU here, so this is the CPU's half of the comparison."
    if record.agreement:
        most = max(each.most for each in record.agreement)
        yield (
            f"{counted(record.compared, 'frame')} became the same tensors in every place, apart by "
            f"{decimal(most)} grey levels at most, before anything was timed ({MOST_APART:g} are "
            f"allowed, {MEAN_APART:g} in the mean)."
        )


def _said(name: str) -> str:
    return "transform" if name in LEVELS else name


def _steps_chart(rows: tuple[PreprocessRow, ...]) -> Chart:
    found = {(row.step.name, row.step.place): row.ms for row in rows}
    places = list(dict.fromkeys(row.step.place for row in rows))
    names = list(dict.fromkeys(row.step.name for row in rows))
    return way_bars(
        [f"transform: {name}" if name in LEVELS else name for name in names],
        {place: [found.get((name, place)) for name in names] for place in places},
        "ms per frame",
        name="steps",
        title="Decode, transform and infer",
        axis="step",
        reading="What a frame takes in each step, with the machine to itself; of transform the "
        "three levels. On a GPU, frames are carried there first, which counts as transform.",
    )


def _paths_chart(rows: tuple[PreprocessRow, ...]) -> Chart:
    found = paths(rows)
    series = {
        said: [sum(row.ms.median for row in path.rows if row.step.name == name) for path in found]
        for said, name in (
            ("decode", DECODE),
            ("transform", _USUAL),
            ("transfer", TRANSFER),
            ("infer", INFER),
        )
    }
    return stacked_bars(
        [path.name for path in found],
        {said: values for said, values in series.items() if any(values)},
        "ms per frame",
        name="paths",
        title="One frame, from the file to the result",
        axis="preprocessed on",
        reading=f"Medians, with the level {_USUAL}: what a frame takes when nothing else is under "
        "way.",
    )


PREPROCESS: Final[Experiment[PreprocessConfig, PreprocessRecord, PreprocessRow]] = Experiment(
    name="preprocess",
    summary="Time each level of preprocessing on CPU and GPU, beside decoding and the model.",
    config=PreprocessConfig,
    record=PreprocessRecord,
    measure=measure_preprocess,
    title=lambda record: (
        f"Decode, transform and infer: frames of {record.size[0]}x{record.size[1]}, {record.model}"
    ),
    rows=rows_of,
    columns=(
        Column("step", lambda row: row.step.name),
        Column("place", lambda row: row.step.place),
        Column("ms a frame", lambda row: decimal(row.ms.median)),
        Column("least", lambda row: decimal(row.ms.lowest)),
        Column("most", lambda row: decimal(row.ms.highest)),
        Column("frames/s", lambda row: decimal(row.rate.median)),
    ),
    reading=lambda record, rows: (
        f"Medians over the turns, each step with the machine to itself. On the CPU PyTorch uses "
        f"{counted(record.threads, 'thread')} for one operation, or 1 where that is said; decoding "
        "uses all cores. Levels are those of headrace models --prep."
    ),
    answer=_answer,
    charts=lambda rows: (_steps_chart(rows), _paths_chart(rows)),
    names_machine=True,
    terms=Terms(seconds=45),
)
