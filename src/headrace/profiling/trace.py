"""What threads did, for other tools: Chrome trace events that Perfetto draws, ranges for Nsight.

Format of the events:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError, reason_of
from headrace.runtime.tracing import Range, TimedRange

Event = dict[str, Any]
"""One trace event; `ts` and `dur` in microseconds."""

NAME: Final = "trace.json.gz"
"""The file in the folder of a run."""
_FIRST_ROW: Final = 1 << 30
"""Row numbers from here on are ours: systems do not number threads so high."""
_SHORTEST_US: Final = 0.001
"""An arrow ends at a range only if it has a length."""


@dataclass(frozen=True, kw_only=True)
class ItemTrace:
    """The way of one item that came out."""

    number: int
    """Of the item, as its last stage counts."""
    stages: tuple[str, ...]
    """Where it was, the source first."""
    source_number: int | None = None
    """What the source's ranges call it, where that is something else."""


def trace_events(
    ranges: Sequence[TimedRange],
    journeys: Sequence[ItemTrace] = (),
    parts: Mapping[tuple[str, int], Sequence[int]] | None = None,
    *,
    origin_ns: int,
    processes: Mapping[int, str] | None = None,
) -> list[Event]:
    """Return ranges as a row for each thread, and arrows along the way of each item.

    Args:
        ranges: Of any threads and processes; those of one thread are nested.
        journeys: The items whose way is drawn.
        parts: (stage, number) of gathered items -> what they are made of: each part has an arrow of
            its own, through all that it went into.
        origin_ns: What the trace counts from, by the clock of the ranges.
        processes: Process -> what it is called; "headrace" where it is not told.
    """
    rows = _rows(ranges)
    placed = [(rows[each.process_id, each.thread_id, each.thread], each) for each in ranges]
    events = list(_names(rows, processes or {}))
    for row, each in placed:
        events.append(
            {
                "ph": "X",
                "cat": "stage",
                "name": f"{each.stage} {each.number}",
                "pid": each.process_id,
                "tid": row,
                "ts": (each.start_ns - origin_ns) / 1e3,
                "dur": max(_SHORTEST_US, (each.end_ns - each.start_ns) / 1e3),
                "args": {"stage": each.stage, "item": each.number},
            }
        )
    found: dict[tuple[str, int], tuple[int, TimedRange]] = {}
    for row, each in sorted(placed, key=lambda pair: pair[1].end_ns):
        found[each.stage, each.number] = row, each
    for journey in journeys:
        for item, way in _ways(journey, parts or {}):
            stops = [found[stop] for stop in way if stop in found]
            events += _arrow(item, stops, origin_ns)
    return events


def row_names(ranges: Sequence[TimedRange]) -> dict[tuple[int, int], str]:
    """Return (process, thread) -> the name of its row, to call other rows of the thread alike."""
    return {(each.process_id, each.thread_id): each.thread for each in ranges}


def metadata(name: str, process: int, row: int, args: Event) -> Event:
    """Return an event that says something of a row: `thread_name`, `thread_sort_index`."""
    return {"ph": "M", "name": name, "pid": process, "tid": row, "ts": 0, "args": args}


def write_trace(path: Path, events: Sequence[Event]) -> None:
    """Write events as gzipped JSON; the file appears whole or not at all.

    Raises:
        ConfigError: it cannot be written there.
    """
    partial = partial_of(path)
    try:
        with gzip.open(partial, "wt", encoding="utf-8", compresslevel=6) as file:
            file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
            file.write(",\n".join(map(json.dumps, events)))
            file.write("\n]}\n")
        partial.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {reason_of(error)}; give a folder that can be written to"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _rows(ranges: Sequence[TimedRange]) -> dict[tuple[int, int, str], int]:
    """Number the rows in the order their stages began, then by name."""
    began: dict[str, int] = {}
    for each in ranges:
        began[each.stage] = min(each.start_ns, began.get(each.stage, each.start_ns))
    first: dict[tuple[int, int, str], int] = {}
    for each in ranges:
        thread = each.process_id, each.thread_id, each.thread
        first[thread] = min(began[each.stage], first.get(thread, began[each.stage]))
    ordered = sorted(first, key=lambda thread: (thread[0], first[thread], thread[2]))
    return {thread: _FIRST_ROW + 2 * place for place, thread in enumerate(ordered)}


def _names(
    rows: Mapping[tuple[int, int, str], int], processes: Mapping[int, str]
) -> Iterator[Event]:
    for process in dict.fromkeys(process for process, _, _ in rows):
        name = f"{processes.get(process, 'headrace')} {process}"
        yield metadata("process_name", process, 0, {"name": name})
    for (process, _, name), row in rows.items():
        yield metadata("thread_name", process, row, {"name": name})
        yield metadata("thread_sort_index", process, row, {"sort_index": row - _FIRST_ROW})


def _ways(
    journey: ItemTrace, parts: Mapping[tuple[str, int], Sequence[int]]
) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """Yield (number at the source, stops), for each item of the source that went into it."""
    ways: list[list[tuple[str, int]]] = [[]]
    numbers = [journey.number]
    for stage in reversed(journey.stages):
        ways = [[(stage, number), *way] for number, way in zip(numbers, ways, strict=True)]
        split = [
            (part, way)
            for number, way in zip(numbers, ways, strict=True)
            for part in parts.get((stage, number), (number,))
        ]
        numbers, ways = [part for part, _ in split], [list(way) for _, way in split]
    for number, way in zip(numbers, ways, strict=True):
        if journey.source_number is not None:
            way[0] = journey.stages[0], journey.source_number
        yield number, way


def _arrow(item: int, stops: Sequence[tuple[int, TimedRange]], origin_ns: int) -> Iterator[Event]:
    """Yield the parts of one arrow; each binds to the range that begins at its moment."""
    last = len(stops) - 1
    for place, (row, each) in enumerate(stops if last > 0 else ()):
        yield {
            "ph": "s" if place == 0 else "f" if place == last else "t",
            **({"bp": "e"} if place == last else {}),
            "cat": "item",
            "name": "item",
            "id": item,
            "pid": each.process_id,
            "tid": row,
            "ts": (each.start_ns - origin_ns) / 1e3,
        }


class NvtxDomain(Protocol):
    """What is used of a domain of the package `nvtx`; free while no tool listens."""

    def push_range(self, *, message: str, category: str) -> Any:
        """Begin a range in this thread."""

    def pop_range(self) -> Any:
        """End the range of this thread that began last."""


class NvtxMarks:
    """Each range is called after its stage and item, `model 17`; its category is the stage."""

    def __init__(self, domain: NvtxDomain) -> None:
        """Ranges go to this domain: `nvtx.get_domain("headrace")`."""
        self._domain = domain

    def range(self, stage: str, number: int) -> Range:
        """Return a range of the domain."""
        return _NvtxRange(self._domain, stage, number)

    def gathered(self, stage: str, number: int, parts: Sequence[int]) -> None:
        """Say nothing: NVTX knows no such thing."""


class _NvtxRange:
    __slots__ = ("_domain", "_number", "_stage")

    def __init__(self, domain: NvtxDomain, stage: str, number: int) -> None:
        self._domain = domain
        self._stage = stage
        self._number = number

    def __enter__(self) -> None:
        self._domain.push_range(message=f"{self._stage} {self._number}", category=self._stage)

    def __exit__(self, *_: object) -> None:
        self._domain.pop_range()

    def arrived(self, number: int, since_ns: int) -> None:
        """Leave the name: it was given when the range began."""
