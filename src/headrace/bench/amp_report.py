"""What bench amp shows: rows, answer and chart, from its record alone."""

from dataclasses import dataclass
from typing import Final

from headrace.bench.amp import AmpConfig, AmpRecord, Precise, measure_amp
from headrace.bench.benchmark import Experiment
from headrace.bench.charts import rate_bars
from headrace.bench.contest import (
    ContestRow,
    contest_answer,
    contest_columns,
    contest_rows,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.experiment import Column
from headrace.report.numbers import counted, percent


@dataclass(frozen=True, kw_only=True)
class AmpRow(ContestRow):
    """One precision."""

    precise: Precise


def rows_of(record: AmpRecord) -> tuple[AmpRow, ...]:
    """Return a row for each precision, float32 first."""
    told = {each.way: each for each in record.precisions}
    return tuple(AmpRow(**vars(row), precise=told[row.way]) for row in contest_rows(record))


def _answer(record: AmpRecord, rows: tuple[AmpRow, ...]) -> tuple[Finding, ...]:
    # What --use-amp of a run takes on this device.
    taken = "bfloat16" if record.device == "cpu" else "float16"
    changes = {
        row.way: Change(words=f"autocast in {row.way}; headrace run takes {taken} with --use-amp")
        for row in rows
    }
    changes[taken] = Change(words="--use-amp of headrace run", options={"amp": True})
    evidence = [
        *(_changed(record, row.precise) for row in rows[1:]),
        *(_emulated(row.precise) for row in rows if row.precise.is_native is False),
        "These are figures of the model alone: a run gains as much only where its model sets the "
        "pace.",
    ]
    return contest_answer(record, rows, "frames", changes=changes, evidence=evidence)


def _changed(record: AmpRecord, precise: Precise) -> str:
    said = (
        f"In {precise.way} {percent(precise.same_class)} of {counted(record.frames, 'frame')} have "
        f"the same likeliest class as in float32; confidence in it changes by up to "
        f"{precise.most_changed:.1g}."
    )
    if not record.is_random:
        return said
    return (
        f"{said} With random weights, whose classes are nearly equally likely, this tells little: "
        "--weights DEFAULT asks trained ones."
    )


def _emulated(precise: Precise) -> str:
    return (
        f"This processor has no instructions for {precise.way}: PyTorch emulates it, which is "
        "slower where they would be faster."
    )


def _native(row: AmpRow) -> str:
    known = {True: "yes", False: "emulated", None: "-"}
    return known[row.precise.is_native]


AMP: Final[Experiment[AmpConfig, AmpRecord, AmpRow]] = Experiment(
    name="amp",
    summary="Time a model in float32 and in fewer bits; tell what that changes in its results.",
    config=AmpConfig,
    record=AmpRecord,
    measure=measure_amp,
    title=lambda record: f"Frames per second by precision: {record.model} on {record.device}",
    rows=rows_of,
    columns=(
        *contest_columns("precision", "frames"),
        Column("same class", lambda row: percent(row.precise.same_class)),
        Column("most changed", lambda row: f"{row.precise.most_changed:.1g}"),
        Column("native", _native),
    ),
    reading=lambda record, rows: (
        "Of the model alone, on batches that lie in memory; medians over the turns. Same class is "
        "the share of frames whose likeliest class is that of float32, most changed the largest "
        "difference of the confidence in it (0 to 1); native says whether the processor has "
        "instructions for the precision."
    ),
    answer=_answer,
    charts=lambda rows: (
        rate_bars(
            rows,
            "frames",
            name="rates",
            title="Frames per second of the model",
            axis="precision",
            reading="The same batches in each precision, by autocast below float32.",
        ),
    ),
    names_machine=True,
    terms=Terms(concerns="model", seconds=30),
)
