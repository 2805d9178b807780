"""Traces for other tools: Chrome trace events for Perfetto, NVTX ranges for Nsight Systems.

Format of the trace events:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.atomic_file import write_bytes_whole
from headrace.runtime.tracing import Range, TimedRange

Event = dict[str, Any]
"""One trace event; `ts` and `dur` in microseconds."""

NAME: Final = "trace.json.gz"
"""Name of the file in a run folder."""
_FIRST_ROW: Final = 1 << 30
"""First row number of headrace, above all thread ids of the operating system."""
_MIN_DURATION_US: Final = 0.001
"""Min duration of a range, in microseconds; an arrow binds only to a range of positive length."""


@dataclass(frozen=True, kw_only=True)
class ItemTrace:
    """Path of one delivered item through the stages."""

    number: int
    """Number of the item at its last stage."""
    stages: tuple[str, ...]
    """Names of its stages, the source first."""
    source_number: int | None = None
    """Number of the item in the ranges of the source; None: `number`."""


def trace_events(
    ranges: Sequence[TimedRange],
    items: Sequence[ItemTrace] = (),
    parts: Mapping[tuple[str, int], Sequence[int]] | None = None,
    *,
    origin_ns: int,
    processes: Mapping[int, str] | None = None,
) -> list[Event]:
    """Return the events: one row of ranges per thread, and one arrow per item along its path.

    Args:
        ranges: Ranges of all threads and processes; the ranges of one thread are nested.
        items: Items that get an arrow.
        parts: (stage, number) of a batch → numbers of its items. Each of these items gets its own
            arrow, through every batch that contains it.
        origin_ns: Time 0 of the trace, on the clock of the ranges.
        processes: Process id → name; default "headrace".
    """
    rows = _rows(ranges)
    placed = [(rows[span.process_id, span.thread_id, span.thread], span) for span in ranges]
    events = list(_name_rows(rows, processes or {}))
    for row, span in placed:
        events.append(
            {
                "ph": "X",
                "cat": "stage",
                "name": f"{span.stage} {span.number}",
                "pid": span.process_id,
                "tid": row,
                "ts": (span.start_ns - origin_ns) / 1e3,
                "dur": max(_MIN_DURATION_US, (span.end_ns - span.start_ns) / 1e3),
                "args": {"stage": span.stage, "item": span.number},
            }
        )
    last: dict[tuple[str, int], tuple[int, TimedRange]] = {}
    for row, span in sorted(placed, key=lambda pair: pair[1].end_ns):
        last[span.stage, span.number] = row, span
    for item in items:
        for number, path in _paths(item, parts or {}):
            stops = [last[stop] for stop in path if stop in last]
            events += _arrow(number, stops, origin_ns)
    return events


def metadata(name: str, process: int, row: int, args: Event) -> Event:
    """Return a metadata event of a row, such as `thread_name` or `thread_sort_index`."""
    return {"ph": "M", "name": name, "pid": process, "tid": row, "ts": 0, "args": args}


def write_trace(path: Path, events: Sequence[Event]) -> None:
    """Write events as gzipped JSON, atomically.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = ",\n".join(map(json.dumps, events))
    text = f'{{"displayTimeUnit": "ms", "traceEvents": [\n{text}\n]}}\n'
    write_bytes_whole(path, gzip.compress(text.encode("utf-8"), compresslevel=6))


def _rows(ranges: Sequence[TimedRange]) -> dict[tuple[int, int, str], int]:
    """Return thread → row number, in the order in which its stage started, then by name."""
    starts: dict[str, int] = {}
    for span in ranges:
        starts[span.stage] = min(span.start_ns, starts.get(span.stage, span.start_ns))
    first: dict[tuple[int, int, str], int] = {}
    for span in ranges:
        thread = span.process_id, span.thread_id, span.thread
        first[thread] = min(starts[span.stage], first.get(thread, starts[span.stage]))
    ordered = sorted(first, key=lambda thread: (thread[0], first[thread], thread[2]))
    return {thread: _FIRST_ROW + 2 * index for index, thread in enumerate(ordered)}


def _name_rows(
    rows: Mapping[tuple[int, int, str], int], processes: Mapping[int, str]
) -> Iterator[Event]:
    for process in dict.fromkeys(process for process, _, _ in rows):
        name = f"{processes.get(process, 'headrace')} {process}"
        yield metadata("process_name", process, 0, {"name": name})
    for (process, _, name), row in rows.items():
        yield metadata("thread_name", process, row, {"name": name})
        yield metadata("thread_sort_index", process, row, {"sort_index": row - _FIRST_ROW})


def _paths(
    item: ItemTrace, parts: Mapping[tuple[str, int], Sequence[int]]
) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """Yield (number at the source, path) for each source item that is part of `item`.

    A path is a list of (stage, number).
    """
    paths: list[tuple[int, list[tuple[str, int]]]] = [(item.number, [])]
    for stage in reversed(item.stages):
        paths = [
            (part, [(stage, number), *path])
            for number, path in paths
            for part in parts.get((stage, number), (number,))
        ]
    for number, path in paths:
        if item.source_number is not None:
            path[0] = item.stages[0], item.source_number
        yield number, path


def _arrow(item: int, stops: Sequence[tuple[int, TimedRange]], origin_ns: int) -> Iterator[Event]:
    """Yield the events of one arrow; each binds to the range that starts at the same time."""
    last = len(stops) - 1
    for index, (row, span) in enumerate(stops if last > 0 else ()):
        yield {
            "ph": "s" if index == 0 else "f" if index == last else "t",
            **({"bp": "e"} if index == last else {}),
            "cat": "item",
            "name": "item",
            "id": item,
            "pid": span.process_id,
            "tid": row,
            "ts": (span.start_ns - origin_ns) / 1e3,
        }


class NvtxMarks:
    """Tracer that writes NVTX ranges, named by stage and item: `model 17`; category: the stage."""

    def __init__(self, domain: Any) -> None:
        """Write ranges to `nvtx.get_domain("headrace")`; free of cost without an attached tool."""
        self._domain = domain

    def range(self, stage: str, number: int) -> Range:
        """Return a range of the domain; its name is set when it starts."""
        return Range(stage, number, (self,))

    def on_start(self, started: Range) -> None:
        """Start a range of the domain: see `RangeProcessor`."""
        name = f"{started.stage} {started.number}"
        self._domain.push_range(message=name, category=started.stage)

    def on_end(self, ended: Range, *, has_item: bool) -> None:
        """End the innermost range of this thread: see `RangeProcessor`."""
        self._domain.pop_range()

    def record_parts(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Do nothing: NVTX cannot show the parts of a batch."""
