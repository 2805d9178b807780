"""Traces for other tools: trace events for Perfetto with the operations of PyTorch, NVTX ranges.

Format of the trace events:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from headrace.atomic_file import write_bytes_whole
from headrace.errors import BackendError
from headrace.runtime.clock import Clock
from headrace.runtime.tracing import Range, RangeRecorder, TimedRange

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


def _metadata(name: str, process: int, row: int, args: Event) -> Event:
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
        yield _metadata("process_name", process, 0, {"name": name})
    for (process, _, name), row in rows.items():
        yield _metadata("thread_name", process, row, {"name": name})
        yield _metadata("thread_sort_index", process, row, {"sort_index": row - _FIRST_ROW})


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


_CLOCK_RANGE: Final = "headrace clock"
"""Name of the profiler ranges in which our clock is read."""
_READINGS: Final = 4
"""Clock readings at start and at stop; the first ones are slow."""
WARMUP_STEPS: Final = 1
"""Delivered steps before the recording of PyTorch operations starts."""


class TorchEvents:
    """PyTorch operations between `start` and `stop`; call each once, in the same thread."""

    def __init__(self, clock: Clock) -> None:
        """Create the profiler; event times are on `clock`.

        Raises:
            BackendError: this PyTorch cannot record all threads.
        """
        self._clock = clock
        self._readings_ns: list[int] = []
        self._stopped_ns = 0
        self._is_on = False
        # Private in torch 2.15, but existing threads cannot be recorded otherwise.
        try:
            every_thread = _ExperimentalConfig(profile_all_threads=True, trace_only=True)
        except TypeError as error:
            raise BackendError(
                f"PyTorch {torch.__version__} cannot record all threads, which a trace needs; "
                "install a newer PyTorch, or run without a trace"
            ) from error
        self._profile = profile(activities=_activities(), experimental_config=every_thread)

    def start(self) -> None:
        """Start recording; about 1 ms, or seconds at the first call in a process: see `warm_up`."""
        self._profile.start()
        self._is_on = True
        self._read_clock()

    def stop(self) -> None:
        """Stop recording; does nothing before `start`."""
        if self._is_on:
            self._is_on = False
            self._read_clock()
            self._stopped_ns = self._clock.now_ns()
            self._profile.stop()

    def events(self, rows: Mapping[tuple[int, int], str], *, origin_ns: int) -> list[Event]:
        """Return the operations that started and ended while recording; empty without a `start`.

        Call it after `stop`.

        Args:
            rows: (process id, thread id) → name of the row. PyTorch's operations get rows of their
                own, because a clock difference of a microsecond would break the nesting.
            origin_ns: Time 0 of the trace.
        """
        if not self._readings_ns:
            return []
        with TemporaryDirectory() as folder:
            file = Path(folder) / "torch.json"
            self._profile.export_chrome_trace(str(file))
            recorded = json.loads(file.read_bytes())["traceEvents"]
        shift_us = _measure_shift_us(recorded, self._readings_ns) - origin_ns / 1e3
        stopped_us = (self._stopped_ns - origin_ns) / 1e3
        processes = frozenset(process for process, _ in rows)
        shifted = [
            {**event, "ts": 0 if event["ph"] == "M" else float(event["ts"]) + shift_us}
            for event in recorded
            if _is_operation(event, processes)
        ]
        operations = [event for event in shifted if not _is_cut(event, processes, stopped_us)]
        return [*_name_torch_rows(operations, rows), *operations]

    def _read_clock(self) -> None:
        for _ in range(_READINGS):
            with record_function(_CLOCK_RANGE):
                self._readings_ns.append(self._clock.now_ns())


def warm_up() -> None:
    """Start and stop the profiler once before the first step; up to a few seconds per process."""
    profiler = profile(activities=_activities())
    profiler.start()
    profiler.stop()


def _activities() -> list[ProfilerActivity]:
    on_gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    return [ProfilerActivity.CPU, *on_gpu]


def _measure_shift_us(events: list[dict[str, Any]], readings_ns: list[int]) -> float:
    """Return the offset from PyTorch's clock to ours, from the shortest clock reading."""
    ranges = [event for event in events if event["name"] == _CLOCK_RANGE and event["ph"] == "X"]
    ordered = sorted(ranges, key=lambda event: float(event["ts"]))
    # An interrupt may end a range without its reading.
    pairs = zip(ordered, readings_ns, strict=False)
    shortest, reading_ns = min(pairs, key=lambda pair: float(pair[0]["dur"]))
    return reading_ns / 1e3 - (float(shortest["ts"]) + float(shortest["dur"]) / 2)


def _is_operation(event: Mapping[str, Any], processes: frozenset[int]) -> bool:
    """Return whether an event is an operation, and neither internal nor the name of a thread.

    Args:
        event: Event of the profiler.
        processes: Processes whose rows `_name_torch_rows` names; names of threads are reused.
    """
    if not isinstance(event.get("pid"), int) or event["name"] == _CLOCK_RANGE:
        return False
    return not (event["pid"] in processes and event["ph"] == "M")


def _is_cut(event: Event, processes: frozenset[int], stopped_us: float) -> bool:
    """Return whether an operation still ran at the end, so that its duration is unknown.

    Operations of a device have completed; their rows belong to no process.
    """
    return event["pid"] in processes and event["ts"] + event.get("dur", 0) > stopped_us


def _name_torch_rows(
    events: Sequence[Event], rows: Mapping[tuple[int, int], str]
) -> Iterator[Event]:
    """Yield the names of the rows of this run's processes."""
    processes = {process for process, _ in rows}
    threads = {(event["pid"], event["tid"]) for event in events if event["pid"] in processes}
    for process, thread in sorted(threads, key=lambda key: (rows.get(key, ""), key)):
        name = rows.get((process, thread), f"thread {thread}")
        yield _metadata("thread_name", process, thread, {"name": f"{name}: PyTorch"})


class StepTrace:
    """Trace of a run: ranges from the start on, PyTorch operations after the warm-up.

    Recording ends after the last step of the trace, or at `close`. Not thread-safe.
    """

    def __init__(self, steps: int, clock: Clock) -> None:
        """Record `steps` steps after the warm-up."""
        self.marks = RangeRecorder(clock)
        """Tracer of the run."""
        self.began_ns: int | None = None
        """Start of the recording of PyTorch operations."""
        self._clock = clock
        self._steps = steps
        self._torch = TorchEvents(clock)
        self._items: list[ItemTrace] = []
        self._is_over = False

    @property
    def steps(self) -> int:
        """Number of steps with recorded PyTorch operations."""
        return max(0, len(self._items) - WARMUP_STEPS)

    def add(self, item: ItemTrace) -> None:
        """Add a delivered step."""
        if self._is_over:
            return
        self._items.append(item)
        if len(self._items) == WARMUP_STEPS:
            began_ns = self._clock.now_ns()
            self._torch.start()
            self.began_ns = began_ns
        if len(self._items) == WARMUP_STEPS + self._steps:
            self.close()

    def close(self) -> None:
        """Stop recording."""
        if not self._is_over:
            self._is_over = True
            # In this order, every PyTorch operation is inside a range.
            self._torch.stop()
            self.marks.stop()

    def events(self, *, origin_ns: int) -> list[Event]:
        """Return the trace; call it after `close` and after the threads of the run have ended.

        Args:
            origin_ns: Time 0 of the trace.
        """
        ranges = self.marks.ranges
        rows = {(span.process_id, span.thread_id): span.thread for span in ranges}
        events = trace_events(ranges, self._items, self.marks.parts, origin_ns=origin_ns)
        return events + self._torch.events(rows, origin_ns=origin_ns)
