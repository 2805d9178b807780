"""The trace of the first steps of a run: what its threads did, and what PyTorch did in them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from headrace.errors import BackendError
from headrace.profiling.trace import Event, ItemTrace, metadata, row_names, trace_events
from headrace.runtime.clock import Clock
from headrace.runtime.tracing import RangeRecorder

_READING: Final = "headrace clock"
"""Name of the ranges inside which the clock was read."""
_READINGS: Final = 4
"""At each end: the first ones are slow."""


class TorchEvents:
    """Records between `start` and `stop`, both called in one thread, once."""

    def __init__(self, clock: Clock) -> None:
        """Times will be those of `clock`.

        Raises:
            BackendError: this PyTorch is too old to record all threads.
        """
        self._clock = clock
        self._readings_ns: list[int] = []
        self._stopped_ns = 0
        self._is_on = False
        # Private, but the only way to hear of threads that were there before: torch 2.15.
        try:
            every_thread = _ExperimentalConfig(profile_all_threads=True, trace_only=True)
        except TypeError as error:
            raise BackendError(
                f"PyTorch {torch.__version__} cannot record the work of all threads, as a trace "
                "needs it; install a newer one, or leave the trace out"
            ) from error
        self._profile = profile(activities=_activities(), experimental_config=every_thread)

    def start(self) -> None:
        """Begin: a millisecond, but for the first one of a process: see `warm_up`."""
        self._profile.start()
        self._is_on = True
        self._read()

    def stop(self) -> None:
        """End; nothing happens where it never began."""
        if self._is_on:
            self._is_on = False
            self._read()
            self._stopped_ns = self._clock.now_ns()
            self._profile.stop()

    def events(self, rows: Mapping[tuple[int, int], str], *, origin_ns: int) -> list[Event]:
        """Return what was begun and ended while it recorded; nothing where it never began.

        Call it once it has stopped.

        Args:
            rows: (process, thread) -> what its row is called; that of PyTorch's work stands apart,
                because two clocks that differ by a microsecond nest nothing.
            origin_ns: What the trace counts from.
        """
        if not self._readings_ns:
            return []
        with TemporaryDirectory() as folder:
            file = Path(folder) / "torch.json"
            self._profile.export_chrome_trace(str(file))
            found = json.loads(file.read_bytes())["traceEvents"]
        shift_us = _shift_us(found, self._readings_ns) - origin_ns / 1e3
        stopped_us = (self._stopped_ns - origin_ns) / 1e3
        own = frozenset(process for process, _ in rows)
        shifted = [
            {**each, "ts": 0 if each["ph"] == "M" else float(each["ts"]) + shift_us}
            for each in found
            if _is_wanted(each, own)
        ]
        work = [each for each in shifted if not _is_cut(each, own, stopped_us)]
        return [*_names(work, rows), *work]

    def _read(self) -> None:
        for _ in range(_READINGS):
            with record_function(_READING):
                self._readings_ns.append(self._clock.now_ns())


def warm_up() -> None:
    """Set the profiler up, once in a process: up to some seconds, which no step is to pay for."""
    first = profile(activities=_activities())
    first.start()
    first.stop()


def _activities() -> list[ProfilerActivity]:
    on_gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    return [ProfilerActivity.CPU, *on_gpu]


def _shift_us(events: list[dict[str, Any]], readings_ns: list[int]) -> float:
    """Return what must be added to PyTorch's times, by the reading that took the least time."""
    ranges = [each for each in events if each["name"] == _READING and each["ph"] == "X"]
    ordered = sorted(ranges, key=lambda each: float(each["ts"]))
    # An interrupt may end a range whose reading it keeps from being taken.
    pairs = zip(ordered, readings_ns, strict=False)
    shortest, reading_ns = min(pairs, key=lambda pair: float(pair[0]["dur"]))
    return reading_ns / 1e3 - (float(shortest["ts"]) + float(shortest["dur"]) / 2)


def _is_wanted(event: Mapping[str, Any], own: frozenset[int]) -> bool:
    """Whether it tells of work: not of the profiler, nor how a process or thread is called.

    Args:
        event: What the profiler wrote.
        own: Processes whose rows are named here: it knows threads by a name that is used again.
    """
    if not isinstance(event.get("pid"), int) or event["name"] == _READING:
        return False
    return not (event["pid"] in own and event["ph"] == "M")


def _is_cut(event: Event, own: frozenset[int], stopped_us: float) -> bool:
    """Whether it was under way at the end: PyTorch does not see when it ended, and writes "now".

    What a device does (its rows are of no process) is waited for.
    """
    return event["pid"] in own and event["ts"] + event.get("dur", 0) > stopped_us


def _names(events: Sequence[Event], rows: Mapping[tuple[int, int], str]) -> Iterator[Event]:
    """Yield the names of the rows of our processes."""
    own = {process for process, _ in rows}
    places = {(event["pid"], event["tid"]) for event in events if event["pid"] in own}
    for process, thread in sorted(places, key=lambda place: (rows.get(place, ""), place)):
        name = rows.get((process, thread), f"thread {thread}")
        yield metadata("thread_name", process, thread, {"name": f"{name}: PyTorch"})


WARMUP_STEPS: Final = 1
"""Steps that come out before PyTorch's work is recorded."""


class StepTrace:
    """Records what is marked from the start on, and PyTorch's work after the warm-up.

    Both end with the last step of the trace, or when it is closed. For one thread.
    """

    def __init__(self, steps: int, clock: Clock) -> None:
        """Record `steps` steps after the warm-up."""
        self.marks = RangeRecorder(clock)
        """What the run is to tell of its work."""
        self.began_ns: int | None = None
        """When PyTorch's work began to be recorded."""
        self._clock = clock
        self._steps = steps
        self._torch = TorchEvents(clock)
        self._journeys: list[ItemTrace] = []
        self._is_over = False

    @property
    def steps(self) -> int:
        """Steps whose work of PyTorch was recorded."""
        return max(0, len(self._journeys) - WARMUP_STEPS)

    def add(self, journey: ItemTrace) -> None:
        """One step has come out."""
        if self._is_over:
            return
        self._journeys.append(journey)
        if len(self._journeys) == WARMUP_STEPS:
            began_ns = self._clock.now_ns()
            self._torch.start()
            self.began_ns = began_ns
        if len(self._journeys) == WARMUP_STEPS + self._steps:
            self.close()

    def close(self) -> None:
        """Record no more."""
        if not self._is_over:
            self._is_over = True
            # In this order: what PyTorch did before it stopped lies in a range.
            self._torch.stop()
            self.marks.stop()

    def events(self, *, origin_ns: int) -> list[Event]:
        """Return the trace, once it is closed and the run's threads are done.

        Args:
            origin_ns: What it counts from.
        """
        ranges = self.marks.ranges
        events = trace_events(ranges, self._journeys, self.marks.parts, origin_ns=origin_ns)
        return events + self._torch.events(row_names(ranges), origin_ns=origin_ns)
