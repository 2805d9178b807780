"""What the turns of `bench sampling` come to: what limits the fastest, where memory saturates."""

from typing import Final

from headrace.bench.sampling_labels import draws, how, label
from headrace.bench.sampling_record import LADDER, SamplingRecord, Way
from headrace.bench.sampling_rows import SamplingRow, ladder_of
from headrace.measuring.interleaved import AGAIN, Trust, as_fast, fastest
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.numbers import counted, decimal, percent

BUSY: Final = 0.9
"""From this share of the cores it can use on, a strategy is bound by decoding."""
_WASTEFUL: Final = 1.5
"""Frames decoded per frame delivered from which more memory is the first thing to try."""


def answer(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> tuple[Finding, ...]:
    """Return what limits the fastest, where memory saturates, and what frames are worth."""
    return _verdict(record, rows), _memory(record, rows), _price(record), _strategies(record)


def _verdict(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Finding:
    """Name the fastest row, and what limits it."""
    baseline, best = rows[0], fastest(rows)
    usable = record.provenance.machine.usable_cores
    bound, change = _bound(record, best, baseline)
    others = [decimal(row.others or 0.0) for row in (best, baseline)]
    evidence = [
        f"{best.label} decodes {decimal(best.decoded)} frames for each image, the "
        f"baseline {decimal(baseline.decoded)}; that takes {decimal(best.cpu_ms)} ms of processor "
        f"time against {decimal(baseline.cpu_ms)} ms.",
        f"{best.label} keeps {decimal(best.cores)} of {counted(usable, 'usable core')} "
        f"busy with {counted(record.workers, 'worker')}, the baseline {decimal(baseline.cores)}; "
        f"other programs meanwhile {others[0]} and {others[1]}.",
        f"It counts as bound by decoding from {percent(BUSY)} of the cores that its workers can "
        "use.",
        f"Before it was timed, {counted(record.compared, 'frame')} came out equal, bit for bit, "
        "from the baseline, a FrameDataset and a FrameLoader.",
        *Trust.of(rows, usable).sentences("Turns of one strategy"),
    ]
    return Finding(
        headline=f"{_names(best, rows)}: {decimal(best.rate.median)} images/s, "
        f"{decimal(best.times)} times the baseline; {bound}",
        evidence=tuple(evidence),
        change=change,
        advice=None if Trust.of((best, baseline), usable).doubt else _advice(best, baseline),
    )


def _advice(best: SamplingRow, baseline: SamplingRow) -> Change | None:
    """The fastest instead of the baseline; None if it is that."""
    if best is baseline:
        return None
    return Change(
        words=f"Random frames by {best.label}, not by a DataLoader that seeks for each",
        gain=best.times,
        rests_on=f"{decimal(best.rate.median)} against {decimal(baseline.rate.median)} images/s",
    )


def _bound(record: SamplingRecord, row: SamplingRow, baseline: SamplingRow) -> tuple[str, str]:
    """Return what limits a row, by the rule, and the one change to try."""
    usable, workers = record.provenance.machine.usable_cores, record.workers
    trust = Trust.of((row, baseline), usable)
    if trust.is_disturbed:
        # Processor time is counted in ticks of some 10 ms: a short turn may have taken none.
        saved = decimal(baseline.cpu_ms / row.cpu_ms) if row.cpu_ms else ""
        but = f", but processor time is {saved} times less" if saved else ""
        return f"other programs ran meanwhile{but}", AGAIN
    if trust.is_unsteady:
        return "too unsteady to say what limits it", AGAIN
    could = min(workers, usable)
    if row.cores < BUSY * could:
        gain = (
            f": up to {decimal(could / row.cores)} times, until they are busy" if row.cores else ""
        )
        return (
            "not bound by processors, which had time to spare",
            "Faster storage, or more --workers than cores, so that some decode while others "
            f"wait{gain}.",
        )
    if workers < usable:
        return (
            f"bound by decoding, with {counted(workers, 'worker')}",
            f"--workers {usable}, one for each core: up to {decimal(usable / workers)} times, if "
            "decoding is as fast on all of them.",
        )
    if row.decoded > _WASTEFUL:
        change = (
            "More --memory: most frames are decoded only to get to others; up to "
            f"{decimal(row.decoded)} times, if each were decoded once."
        )
    else:
        change = (
            "More cores, or copies of the videos at the size of the model (see headrace plan): "
            "hardly anything is decoded in vain any more. What either gains is not known."
        )
    return "bound by decoding, on all cores", change


def _memory(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Finding:
    """Name where more memory gives no more images."""
    ladder = ladder_of(rows)
    if ladder is None:
        return Finding(
            headline="Where memory saturates was not measured",
            evidence=(
                f"It takes two of {', '.join(LADDER)}: the same frames in ever more memory.",
            ),
            change=f"--strategies {','.join(LADDER)}, or more --memory where one is not possible.",
        )
    point = ladder.point
    rates = ", ".join(f"{row.label} {ladder.rate(row)}" for row in ladder.rows)
    evidence = [
        "Saturation is the least memory within 5 % of the best, of what draws the very same "
        f"frames: {rates}.",
        f"{point.label} decodes {decimal(point.decoded)} frames for each image; from about 1 on, "
        "more memory saves nothing that reading in order would cost.",
    ]
    filling = [row.label for row in ladder.rows if not row.is_filled]
    if filling:
        evidence.append(
            f"Still filling while measured, so faster in the long run: {', '.join(filling)}."
        )
    return ladder.finding(
        Trust.of(ladder.rows, record.provenance.machine.usable_cores),
        evidence,
        setting=f"As much memory as {point.label}",
        surplus="the rest is of more use to the model",
        further="twice the --memory, if the machine has it,",
    )


def _names(best: SamplingRow, rows: tuple[SamplingRow, ...]) -> str:
    """Name the fastest, and those that are as fast within 5 %."""
    others = [row.label for row in as_fast(rows) if row is not best]
    return "Fastest is " + " and ".join([best.label, *others])


def _price(record: SamplingRecord) -> Finding:
    """Say what each strategy's frames are worth to training, those with the same ones together."""
    labels: dict[str, list[str]] = {}
    for each in record.strategies:
        labels.setdefault(draws(each, record), []).append(_label(each.name, record))
    return Finding(
        headline="What it costs in statistics: "
        + ("nothing" if len(labels) == 1 else "nothing, but for what draws other frames"),
        evidence=tuple(f"{', '.join(names)}: {drawn}." for drawn, names in labels.items()),
    )


def _strategies(record: SamplingRecord) -> Finding:
    return Finding(
        headline="The strategies",
        evidence=tuple(
            f"{_label(each.name, record)}: {how(each.name, record)}."
            + (f" Not possible here: {each.why_not}." if each.why_not else "")
            for each in record.strategies
        ),
    )


def _label(way: Way, record: SamplingRecord) -> str:
    return label(way, record.memory_budget, record.burst)
