"""What bench decode shows: rows, answer and chart, from its record alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import rate_bars
from headrace.bench.contest import ContestRow, contest_answer, contest_rows
from headrace.bench.decode import (
    MOST_VIDEOS,
    DecodeConfig,
    DecodeRecord,
    MethodRecord,
    announce,
    measure_decode,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.interleaved import grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.experiment import Column
from headrace.report.numbers import counted, decimal

_NONE: Final = "-"
_BY_TORCHCODEC: Final = 'decoding=Decoding(backend="torchcodec"'
_CHANGES: Final = {
    "torchcodec CPU": Change(words=f"{_BY_TORCHCODEC}) of loaders and readers"),
    "torchcodec CUDA": Change(words=f'{_BY_TORCHCODEC}, device="cuda:0") of loaders and readers'),
    "PyNvVideoCodec": Change(
        words='decoding=Decoding(backend="pynvvideocodec", device="cuda:0") of loaders and readers'
    ),
    "NVDEC": Change(words="gpu=0 of loaders, decoding=Decoding.on_gpu(0) of readers"),
}


@dataclass(frozen=True, kw_only=True)
class DecodeRow:
    """One method."""

    method: MethodRecord
    timed: ContestRow | None
    """None: it was not timed."""
    cpu_ms: float | None
    """Processor time of a frame, milliseconds, the median turn: more than `ms` where a library
    works in several threads, less where a GPU does the work."""

    @property
    def ms(self) -> float | None:
        """Mean milliseconds of a frame, the median turn."""
        return None if self.timed is None else 1e3 / self.timed.rate.median


def rows_of(record: DecodeRecord) -> tuple[DecodeRow, ...]:
    """Return a row for each method, PyAV first."""
    timed = {row.way: row for row in contest_rows(record)}
    cpu_ms = {
        way: median(1e3 * turn.cpu_seconds / turn.amount for turn in turns)
        for way, turns in grouped(record.turns, lambda turn: turn.way).items()
    }
    return tuple(
        DecodeRow(method=each, timed=timed.get(each.way), cpu_ms=cpu_ms.get(each.way))
        for each in record.methods
    )


def _answer(record: DecodeRecord, rows: tuple[DecodeRow, ...]) -> tuple[Finding, ...]:
    ours = tuple(row.timed for row in rows if row.timed is not None and row.method.is_ours)
    evidence = tuple(_evidence(record, rows))
    return contest_answer(record, ours, "frames", changes=_CHANGES, evidence=evidence)


def _evidence(record: DecodeRecord, rows: tuple[DecodeRow, ...]) -> Iterator[str]:
    for row in rows:
        if row.timed is not None and not row.method.is_ours:
            rate = decimal(row.timed.rate.median)
            yield f"{row.method.way}, by which headrace does not decode: {rate} frames/s."
        if row.method.status is not None:
            yield f"{row.method.way} was not timed: {row.method.why_not.rstrip('.')}."
    others = [row.method for row in rows[1:] if row.timed is not None]
    if others:
        furthest = max(others, key=lambda method: method.mean_apart)
        yield (
            f"{counted(furthest.compared, 'picture')} of each method that was timed were held "
            f"against PyAV's before: apart by {decimal(furthest.mean_apart)} levels of 255 in the "
            f"mean at most, of one number by {max(method.most_apart for method in others)}."
        )
    if record.videos == MOST_VIDEOS:
        yield f"At most {MOST_VIDEOS} videos are read, from all over what was given."


def _cell(value: float | None) -> str:
    return _NONE if value is None else decimal(value)


def _apart(row: DecodeRow) -> str:
    method = row.method
    return decimal(method.mean_apart) if method.compared else _NONE


def _rate(row: DecodeRow, name: str) -> str:
    return _cell(None if row.timed is None else getattr(row.timed.rate, name))


DECODE: Final[Experiment[DecodeConfig, DecodeRecord, DecodeRow]] = Experiment(
    name="decode",
    summary="Time decoding by each backend: PyAV, torchcodec, NVDEC, PyNvVideoCodec, decord.",
    config=DecodeConfig,
    record=DecodeRecord,
    measure=measure_decode,
    title=lambda record: (
        f"Decoding {counted(record.videos, 'video')} ({', '.join(record.codecs)}), up to "
        f"{record.size[0]}x{record.size[1]}, frames {_read(record)}"
    ),
    rows=rows_of,
    columns=(
        Column("method", lambda row: row.method.way),
        Column("mean decode ms", lambda row: _cell(row.ms)),
        Column("FPS", lambda row: _rate(row, "median")),
        Column("CPU ms", lambda row: _cell(row.cpu_ms)),
        Column("slowest", lambda row: _rate(row, "lowest")),
        Column("fastest", lambda row: _rate(row, "highest")),
        Column("apart", _apart),
        Column("not timed", lambda row: row.method.status or _NONE),
    ),
    reading=lambda record, rows: (
        "One decoder in one thread, whole frames as RGB in main memory, so that what a GPU decodes "
        "comes down; FPS are medians over the turns. CPU ms is the processor time of a frame, more "
        "than its time where a library takes several threads. Apart is how far pictures are from "
        "PyAV's, in levels of 255. Files are open and checked before anything is timed."
    ),
    answer=_answer,
    charts=lambda rows: (
        rate_bars(
            [row.timed for row in rows if row.timed is not None],
            "frames",
            name="rates",
            title="Frames per second by method",
            axis="method",
            reading="The same frames by each method that runs here.",
        ),
    ),
    names_machine=True,
    announce=announce,
    terms=Terms(concerns="decode", seconds=40),
)


def _read(record: DecodeRecord) -> str:
    return "in order" if record.access == "in-order" else "anywhere"
