"""Page of `bench sampling`: bottleneck of the fastest variant, saturation of memory."""

from dataclasses import dataclass
from typing import Final

from headrace.bench.benchmark import Benchmark, SuiteSpec
from headrace.bench.charts import Charts, bars
from headrace.bench.ladder import Saturation
from headrace.bench.sampling import (
    LADDER,
    SamplingConfig,
    SamplingRecord,
    StrategyRecord,
    draws,
    how,
    label,
    measure_sampling,
)
from headrace.measuring.decode_counts import DECODED, FILLING, READ, CountedRow, DeliveryRepetition
from headrace.measuring.interleaved import AGAIN, as_fast, fastest, grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import count, counted, decimal, percent
from headrace.report.benchmark_page import Column


@dataclass(frozen=True, kw_only=True)
class SamplingRow(CountedRow[DeliveryRepetition]):
    """Repetitions of one strategy."""

    strategy: StrategyRecord
    label: str
    baseline: CountedRow[DeliveryRepetition]
    """Repetitions of the baseline."""

    @property
    def times(self) -> float:
        """Frames per second ÷ the baseline's."""
        return self.rate.median / self.baseline.rate.median

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per frame, over all processes."""
        return 1e3 * self.per_frame("cpu_seconds")

    @property
    def is_filled(self) -> bool:
        """False if the window was still filling during a repetition."""
        return all(repetition.is_filled for repetition in self.repetitions)


def rows_of(record: SamplingRecord) -> tuple[SamplingRow, ...]:
    """Return one row per strategy that ran, the baseline first."""
    groups = grouped(record.turns, lambda repetition: repetition.strategy)
    baseline = CountedRow(repetitions=groups[record.strategies[0].name])
    return tuple(
        SamplingRow(
            repetitions=groups[strategy.name],
            strategy=strategy,
            label=label(strategy.name, record),
            baseline=baseline,
        )
        for strategy in record.strategies
        if strategy.name in groups
    )


def ladder_of(rows: tuple[SamplingRow, ...]) -> Saturation[SamplingRow] | None:
    """Return the rows of `LADDER`, with increasing memory; None without two sizes of memory."""
    ran = {row.strategy.name: row for row in rows}
    if not {"quarter", "look-ahead"} <= ran.keys():
        return None
    ladder = [ran[name] for name in LADDER if name in ran]
    return Saturation(
        rows=ladder,
        unit="images/s",
        label=lambda row: row.label,
        subject="memory",
        setting=lambda row: f"As much memory as {row.label}",
        surplus="the model has more use for the rest",
        further="twice the --memory-budget, if the machine has it",
    )


BUSY: Final = 0.9
"""Min share of busy cores at which decoding is the bottleneck."""
_WASTEFUL: Final = 1.5
"""Min decoded ÷ delivered frames at which more memory is the first change to try."""


def answer(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> tuple[Finding, ...]:
    """Return the bottleneck of the fastest variant, the saturation of memory and the ESS."""
    groups = grouped(record.strategies, lambda strategy: draws(strategy, record))
    cost = "none" if len(groups) == 1 else "none, except for strategies that draw other frames"
    return (
        _verdict(record, rows),
        _memory(record, rows),
        Finding(
            headline=f"Statistical cost: {cost}",
            evidence=tuple(
                f"{', '.join(label(strategy.name, record) for strategy in group)}: {words}."
                for words, group in groups.items()
            ),
        ),
        Finding(
            headline="Strategies",
            evidence=tuple(
                f"{label(strategy.name, record)}: {how(strategy.name, record)}."
                + (f" Not possible here: {strategy.why_not}." if strategy.why_not else "")
                for strategy in record.strategies
            ),
        ),
    )


def _verdict(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Finding:
    """Return the fastest rows and their bottleneck."""
    baseline, best = rows[0], fastest(rows)
    names = [best.label, *(row.label for row in as_fast(rows) if row is not best)]
    bound, change = _bound(record, best, baseline)
    others = [decimal(row.others or 0.0) for row in (best, baseline)]
    advice = None
    if best is not baseline and not record.noise((best, baseline)).doubt:
        advice = Change(
            words=f"Random frames by {best.label}, instead of a DataLoader with a seek per frame",
            gain=best.times,
            evidence=f"{decimal(best.rate.median)} against {decimal(baseline.rate.median)} "
            "images/s",
        )
    evidence = [
        f"{best.label} decodes {decimal(best.decoded)} frames per image in "
        f"{decimal(best.cpu_ms)} ms of CPU time; the baseline decodes "
        f"{decimal(baseline.decoded)} in {decimal(baseline.cpu_ms)} ms.",
        f"With {counted(record.workers, 'worker')}, {best.label} keeps {decimal(best.cores)} of "
        f"{counted(record.cores, 'usable core')} busy, the baseline {decimal(baseline.cores)}; "
        f"other programs kept {others[0]} and {others[1]} busy.",
        f"Decoding counts as the limit from {percent(BUSY)} of the cores that the workers can use.",
        f"Before timing, {counted(record.compared, 'frame')} of the baseline, a FrameDataset and a "
        "FrameLoader were equal, bit for bit.",
        *record.noise(rows).sentences("Repetitions of one strategy"),
    ]
    return Finding(
        headline=f"Fastest: {' and '.join(names)}, {decimal(best.rate.median)} images/s, "
        f"{decimal(best.times)} times the baseline; {bound}",
        evidence=tuple(evidence),
        change=change,
        advice=advice,
    )


def _bound(record: SamplingRecord, row: SamplingRow, baseline: SamplingRow) -> tuple[str, str]:
    """Return the bottleneck of a row, and a change to try."""
    usable, workers = record.cores, record.workers
    noise = record.noise((row, baseline))
    if noise.is_disturbed:
        # CPU time has a resolution of about 10 ms, so it may be 0 in a short repetition.
        if not row.cpu_ms:
            return "other programs ran", AGAIN
        saved = decimal(baseline.cpu_ms / row.cpu_ms)
        return f"other programs ran, but the CPU time is {saved} times less", AGAIN
    if noise.is_unsteady:
        return "the repetitions vary too much to say what limits it", AGAIN
    could = min(workers, usable)
    if row.cores < BUSY * could:
        gain = (
            f": up to {decimal(could / row.cores)} times, until all are busy" if row.cores else ""
        )
        return (
            "not limited by the CPU, which was idle at times",
            "Faster storage, or more --workers than cores, so that some decode while others "
            f"wait{gain}.",
        )
    if workers < usable:
        return (
            f"limited by decoding, with {counted(workers, 'worker')}",
            f"--workers {usable}, one per core: up to {decimal(usable / workers)} times, if all "
            "cores decode equally fast.",
        )
    if row.decoded > _WASTEFUL:
        change = (
            "A larger --memory-budget: most frames are decoded only to reach others; up to "
            f"{decimal(row.decoded)} times, if each were decoded once."
        )
    else:
        change = (
            "More cores, or proxies at the size of the model (see headrace plan): few frames are "
            "decoded needlessly. The gain of either is unknown."
        )
    return "limited by decoding, on all cores", change


def _memory(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Finding:
    """Return the point from which more memory gains nothing."""
    ladder = ladder_of(rows)
    if ladder is None:
        return Finding(
            headline="The saturation of memory was not measured",
            evidence=(
                "It needs quarter and look-ahead: the same frames with two sizes of memory.",
            ),
            change=f"--strategies {','.join(LADDER)}, or a larger --memory-budget if one is not "
            "possible.",
        )
    point = ladder.point
    rates = ", ".join(f"{row.label} {ladder.rate(row)}" for row in ladder.rows)
    evidence = [
        "Saturation: the least memory within 5 % of the best rate, of strategies that draw the "
        f"same frames: {rates}.",
        f"{point.label} decodes {decimal(point.decoded)} frames per image; 1 costs as much as "
        "reading in order.",
    ]
    filling = [row.label for row in ladder.rows if not row.is_filled]
    if filling:
        evidence.append(
            "Measured before the window was filled, so the steady rate is higher: "
            f"{', '.join(filling)}."
        )
    return ladder.finding(record.noise(ladder.rows), evidence)


def _reading(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> str:
    repetitions = sum(repetition.strategy == "baseline" for repetition in record.turns)
    filling = any(not row.is_filled for row in rows)
    return (
        f"Medians over {counted(repetitions, 'repetition')} of each strategy. The warm-up is not "
        "counted: the first batch, and as many frames as a FrameLoader looks ahead"
        + (f", but at most {FILLING} times the measured time (* is still warming up)" * filling)
        + ". Speedup: images/s ÷ images/s of the baseline. Decoded, CPU, seeks, opens and kB read "
        "are per delivered frame; the bytes that the baseline reads are not counted (-). Held: max "
        "buffered frames; for a DataLoader, its prefetched batches. Bias: of the expected "
        "gradient, in σ. deff: variance of a batch ÷ variance of independent frames; statistical "
        "inefficiency: the same over many batches. Near 1 is as good as independent frames."
    )


def _charts(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Charts:
    ladder = ladder_of(rows)
    chart = bars(
        [row.label for row in rows],
        {"images/s": [row.rate for row in rows]},
        "images/s",
        name="sampling",
        title="Images per second by strategy",
        reading="Frames delivered per second, in batches, to an idle loop. Memory saturates at the "
        "least amount that reaches the dashed line: 95 % of the best rate with the same frames.",
        axis="strategy",
        limit=("95 % of the best", ladder.enough) if ladder else None,
    )
    return (chart,)


SAMPLING: Final[Benchmark[SamplingConfig, SamplingRecord, SamplingRow]] = Benchmark(
    name="sampling",
    summary="Time random frames by several strategies and a plain baseline; name the bottleneck.",
    config=SamplingConfig,
    record=SamplingRecord,
    measure=measure_sampling,
    title=lambda record: (
        "Images per second by strategy: random frames of "
        f"{counted(record.videos, 'video')}, batches of {record.batch_size}"
    ),
    rows=rows_of,
    columns=(
        Column("strategy", lambda row: row.label),
        Column("images/s", lambda row: decimal(row.rate.median) + "*" * (not row.is_filled)),
        Column(
            "min - max", lambda row: f"{decimal(row.rate.lowest)} - {decimal(row.rate.highest)}"
        ),
        Column("speedup", lambda row: decimal(row.times)),
        DECODED,
        Column("CPU ms", lambda row: decimal(row.cpu_ms)),
        *READ,
        Column(
            "held MB",
            lambda row: decimal(max(repetition.held_bytes for repetition in row.repetitions) / 1e6),
        ),
        Column(
            "frames", lambda row: count(sum(repetition.frames for repetition in row.repetitions))
        ),
        Column("bias", lambda row: decimal(row.strategy.bias)),
        Column("deff", lambda row: decimal(row.strategy.design_effect)),
        Column("stat. inefficiency", lambda row: decimal(row.strategy.inflation)),
    ),
    reading=_reading,
    answer=answer,
    charts=_charts,
    terms=SuiteSpec(
        # The baseline, then lookahead with growing memory.
        config=lambda videos: SamplingConfig(
            videos=videos,
            batch_size=32,
            memory_budget="256MiB",
            strategies=LADDER,
            seconds=1.5,
            repeats=2,
        ),
        seconds=60,
        concerns="loading",
    ),
)
