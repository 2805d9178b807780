"""Trace of the first steps of a run: the stages of each thread and their PyTorch operations."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from headrace.errors import BackendError
from headrace.profiling.trace import Event, ItemTrace, metadata, trace_events
from headrace.runtime.clock import Clock
from headrace.runtime.tracing import RangeRecorder

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
        yield metadata("thread_name", process, thread, {"name": f"{name}: PyTorch"})


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
