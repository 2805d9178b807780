"""What bench transfer shows: rows, answer and chart, from its record alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import stacked_bars
from headrace.bench.contest import ContestRow, Ranking, contest_rows
from headrace.bench.suite.suite_spec import Terms
from headrace.bench.transfer import measure_transfer
from headrace.bench.transfer_record import (
    NO_GPU,
    PAGEABLE,
    UINT8,
    Carried,
    TransferConfig,
    TransferRecord,
)
from headrace.measuring.interleaved import Spread
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import Chart
from headrace.report.experiment import Column
from headrace.report.numbers import count, decimal

_NONE: Final = "-"


@dataclass(frozen=True, kw_only=True)
class TransferRow:
    """One way; its rate is None where it was not timed."""

    carried: Carried
    timed: ContestRow | None

    @property
    def rate(self) -> Spread | None:
        """Frames per second, from the file to the tensor."""
        return self.timed.rate if self.timed else None


def rows_of(record: TransferRecord) -> tuple[TransferRow, ...]:
    """Return a row for each way, in order, also for those that were not timed."""
    timed = {row.way: row for row in contest_rows(record)}
    return tuple(TransferRow(carried=each, timed=timed.get(each.way)) for each in record.ways)


def _answer(record: TransferRecord, rows: tuple[TransferRow, ...]) -> tuple[Finding, ...]:
    timed = tuple(row.timed for row in rows if row.timed)
    said = (*_evidence(record, rows),)
    if not timed:
        return (
            Finding(
                headline=f"Nothing was timed: {NO_GPU}. {_bytes_said(rows)}",
                evidence=said,
                change="Measure on a machine with an NVIDIA GPU.",
            ),
        )
    ranking = Ranking.of(record, timed, "frames")
    headline = f"Fastest is {' and '.join(ranking.alike)}: {ranking.rate(ranking.best)}"
    if ranking.trust.doubt:
        headline = f"{ranking.trust.doubt} which is the fastest; by the median {ranking.best.way}"
    changes = {
        UINT8: Change(
            words="--infer-on-gpu --prep-on-gpu of headrace run",
            options={"device": "cuda", "prep_on_gpu": True},
        )
    }
    return (
        Finding(
            headline=f"{headline}. {_bytes_said(rows)}",
            evidence=(*said, *ranking.trust.sentences("Turns of one way")),
            change=ranking.change(),
            advice=ranking.advice(changes),
        ),
    )


def _bytes_said(rows: Sequence[TransferRow]) -> str:
    """Say which way copies least of those that were counted."""
    total = {
        row.carried.way: (row.carried.up_bytes or 0) + (row.carried.down_bytes or 0)
        for row in rows
        if row.carried.up_bytes is not None
    }
    least = min(total, key=lambda way: total[way])
    return (
        f"Least is copied by {least}: {_bytes(total[least])} bytes a frame, "
        f"{_bytes(total[PAGEABLE])} by {PAGEABLE}"
    )


def _evidence(record: TransferRecord, rows: Sequence[TransferRow]) -> Iterator[str]:
    if record.gpu is None:
        yield (
            "Bytes were counted on tensors copied to another place in main memory, as many as to a "
            "GPU; those of NVDEC are known only where there is one. What makes RGB there was held "
            "against the others on the CPU."
        )
    for row in rows:
        if row.carried.why_not not in (None, NO_GPU):
            yield f"{row.carried.way} was not timed: {row.carried.why_not}."
    apart = [row.carried for row in rows if row.carried.most_apart is not None]
    said = ", ".join(f"{decimal(each.most_apart or 0)} by {each.way}" for each in apart)
    if said:
        yield f"The first batch was the same by every way; grey levels apart at most: {said}."
    yield (
        "Each way decodes with one decoder, in one thread, one step after the other; a run decodes "
        "on all cores and copies meanwhile."
    )


def _bytes(number: float | None) -> str:
    return _NONE if number is None else count(round(number))


def _number(number: float | None) -> str:
    return _NONE if number is None else decimal(number)


def _chart(rows: tuple[TransferRow, ...]) -> Chart:
    counted = [row.carried for row in rows if row.carried.up_bytes is not None]
    return stacked_bars(
        [each.way for each in counted],
        {
            "CPU to GPU": [(each.up_bytes or 0) / 1e3 for each in counted],
            "GPU to CPU": [(each.down_bytes or 0) / 1e3 for each in counted],
        },
        "kB per frame",
        name="bytes",
        title="What is copied between CPU and GPU",
        axis="way",
        reading="Counted from the tensors and planes that were copied.",
    )


TRANSFER: Final[Experiment[TransferConfig, TransferRecord, TransferRow]] = Experiment(
    name="transfer",
    summary="Count the bytes copied between CPU and GPU for a frame, and time the ways to copy.",
    config=TransferConfig,
    record=TransferRecord,
    measure=measure_transfer,
    title=lambda record: (
        f"From the video to a normalised tensor of {record.size[0]}x{record.size[1]} on "
        f"{record.gpu or 'a GPU'}"
    ),
    rows=rows_of,
    columns=(
        Column("way", lambda row: row.carried.way),
        Column("bytes up", lambda row: _bytes(row.carried.up_bytes)),
        Column("bytes down", lambda row: _bytes(row.carried.down_bytes)),
        Column("frames/s", lambda row: _number(row.rate.median if row.rate else None)),
        Column("ms after", lambda row: _number(row.carried.after_ms)),
    ),
    reading=lambda record, rows: (
        "Bytes of a frame to the GPU (up) and from it (down), counted; frames per second from the "
        "file to the tensor, medians over the turns; milliseconds of a frame behind decoding. "
        "float32 is normalised on the CPU, uint8 on the GPU; a dash was not measured."
    ),
    answer=_answer,
    charts=lambda rows: (_chart(rows),),
    names_machine=True,
    terms=Terms(seconds=20),
)
