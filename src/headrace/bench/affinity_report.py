"""What bench affinity shows: rows, answer and chart, from its record alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.bench.affinity import AffinityConfig, AffinityRecord, measure_affinity
from headrace.bench.affinity_settings import MODEL, WHOLE, Setting, way_of
from headrace.bench.benchmark import Experiment
from headrace.bench.charts import way_bars
from headrace.bench.contest import ContestRow, Ranking, contest_rows
from headrace.measuring.interleaved import Spread
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.provenance import Scalar
from headrace.report.experiment import Column
from headrace.report.numbers import counted, decimal


@dataclass(frozen=True, kw_only=True)
class AffinityRow(ContestRow):
    """One setting; its rate is that of the whole path."""

    setting: Setting
    model: Spread
    """Frames per second of the model alone."""


def rows_of(record: AffinityRecord) -> tuple[AffinityRow, ...]:
    """Return a row for each setting, that of a run by itself first."""
    found = {row.way: row for row in contest_rows(record)}
    rows = []
    for setting in record.settings:
        whole, alone = (found[way_of(kind, setting)] for kind in (WHOLE, MODEL))
        others = [each for each in (whole.others, alone.others) if each is not None]
        rows.append(
            AffinityRow(
                way=setting.way,
                rate=whole.rate,
                others=max(others, default=None),
                setting=setting,
                model=alone.rate,
            )
        )
    return tuple(rows)


def _answer(record: AffinityRecord, rows: tuple[AffinityRow, ...]) -> tuple[Finding, ...]:
    ranking = Ranking.of(record, rows, "frames")
    evidence = (*_alone(record, rows), *ranking.trust.sentences("Turns of one setting"))
    if len(rows) == 1:
        headline = f"One core, so there is nothing to choose: {ranking.rate(rows[0])}"
        return (Finding(headline=headline, evidence=evidence),)
    best, changes = ranking.best, {row.way: _change(row.setting) for row in rows[1:]}
    change = ranking.change()
    if ranking.trust.doubt:
        headline = f"{ranking.trust.doubt} what is the fastest; by the median {best.way}"
    elif ranking.is_won:
        times = f"{decimal(ranking.times(best))} times"
        headline = f"A run goes fastest with {best.way}: {ranking.rate(best)}"
        change = f"{changes[best.way].words}: {times} the {ranking.rate(rows[0])} without."
    else:
        headline = (
            "No cores or threads are faster than those a run takes by itself: "
            f"{ranking.rate(rows[0])}"
        )
    advice = ranking.advice(changes)
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _alone(record: AffinityRecord, rows: tuple[AffinityRow, ...]) -> Iterator[str]:
    """Say how the model goes without the rest of a run, and what could not be tried."""
    prefix = way_of(MODEL, rows[0].setting).removesuffix(rows[0].way)
    ways = tuple(row for row in contest_rows(record) if row.way.startswith(prefix))
    alone = Ranking.of(record, ways, "frames")
    best = alone.best.way.removeprefix(prefix)
    if alone.trust.is_unsteady:
        yield "The model alone is too unsteady to say what is the fastest for it."
    elif alone.is_won:
        yield (
            f"The model alone is fastest with {best}: {alone.rate(alone.best)}, "
            f"{decimal(alone.times(alone.best))} times as fast as with {rows[0].way}; in a run "
            "decoding and preprocessing want cores as well."
        )
    elif not alone.trust.doubt:
        yield f"The model alone is not faster either: {alone.rate(alone.first)} as it is."
    if not record.can_bind:
        yield "This system cannot bind a process to cores (Linux can): threads alone were tried."


def _change(setting: Setting) -> Change:
    """Return the options of a run that make a setting."""
    options: dict[str, Scalar] = {}
    words = []
    if setting.cores is not None:
        options["core_bind"] = setting.cores
        words.append(f"--core-bind {setting.cores}")
    if setting.threads is not None:
        options["threads"] = setting.threads
        words.append(f"--threads {setting.threads}")
    return Change(words=f"{' '.join(words)} of headrace run", options=options)


AFFINITY: Final[Experiment[AffinityConfig, AffinityRecord, AffinityRow]] = Experiment(
    name="affinity",
    summary="Time a model and a whole run with all and half of the cores, many threads and one.",
    config=AffinityConfig,
    record=AffinityRecord,
    measure=measure_affinity,
    title=lambda record: (
        f"Frames per second by cores and threads: {record.model}, "
        f"{counted(record.settings[0].num_cores, 'usable core')}"
    ),
    rows=rows_of,
    columns=(
        Column("setting", lambda row: row.way),
        Column("cores", lambda row: str(row.setting.num_cores)),
        Column("threads", lambda row: str(row.setting.threads or "default")),
        Column("model/s", lambda row: decimal(row.model.median)),
        Column("run/s", lambda row: decimal(row.rate.median)),
        Column("slowest", lambda row: decimal(row.rate.lowest)),
        Column("fastest", lambda row: decimal(row.rate.highest)),
    ),
    reading=lambda record, rows: (
        "Frames per second, medians over the turns: of the model alone, on batches that lie in "
        "memory, and of a whole run (decode, preprocess and model in their stages; nothing is "
        "written), of which the slowest and fastest turn. Threads are those of one operation of "
        "PyTorch: by default as many as there are cores."
    ),
    answer=_answer,
    charts=lambda rows: (
        way_bars(
            [row.way for row in rows],
            {"model alone": [row.model for row in rows], "whole run": [row.rate for row in rows]},
            "frames/s",
            name="rates",
            title="Frames per second by cores and threads",
            axis="cores and threads",
            reading="All settings take turns.",
        ),
    ),
    names_machine=True,
)
