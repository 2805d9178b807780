"""Pipeline whose stages are processes: queues carry small values, shared memory the large ones.

`Pipeline` runs the same stages in threads. Processes do not share the interpreter's lock, but each
imports what it needs at its start, and everything between them is copied into shared memory.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from queue import Empty
from typing import Any, Final

from headrace.errors import ConfigError, HeadraceError, StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.item import Span
from headrace.runtime.spawned_processes import CONTEXT, SpawnedProcesses
from headrace.runtime.waitable_source import Waiter

StageWork = Callable[[memoryview, Any], Any]
"""Called with an item's memory and the value of the stage before; returns the new value."""
SourceWork = Callable[[Any, Waiter, Callable[[], memoryview]], Iterator[Any]]
"""Called with an order, a waiter for its pace and a function that returns the next item's memory;
yields the value of each item that it wrote there."""


@dataclass(frozen=True, kw_only=True)
class ProcessStage:
    """One stage, run in a process of its own."""

    name: str
    make: Callable[[Any], AbstractContextManager[Any]]
    """Called there once: yields a `SourceWork` for the first stage, a `StageWork` for the others.
    A function at the top of a module, which the process imports by its name."""
    argument: Any = None
    """Argument of `make`, sent by pickling."""


@dataclass(frozen=True, kw_only=True)
class SharedItem:
    """What the queues carry: a small value, and the slot of shared memory that belongs to it."""

    slot: int
    """Index of its memory."""
    value: Any
    spans: tuple[Span, ...]
    """When each stage so far worked on it, by the clock that all processes of a machine share."""


@dataclass(frozen=True)
class StageFailure:
    """A stage failed; passed on to the reader of the results."""

    error: HeadraceError


@dataclass(frozen=True)
class EndOfStream:
    """All items of an order were sent; the first one means that every process is ready."""


class _Slots:
    """The memory that all processes share, in slots of equal size."""

    def __init__(self, memory: Any, slot_bytes: int) -> None:
        self._bytes = memoryview(memory).cast("B")
        self._slot_bytes = slot_bytes

    def __getitem__(self, slot: int) -> memoryview:
        return self._bytes[slot * self._slot_bytes : (slot + 1) * self._slot_bytes]


def run_source(
    stage: ProcessStage, memory: Any, slot_bytes: int, inbox: Any, outbox: Any, free: Any
) -> None:
    """Run the first stage: for each order, send its items and then `EndOfStream`."""
    slots = _Slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            outbox.put(EndOfStream())
            while True:
                _run_order(stage.name, work, inbox.get(), outbox, free, slots)
                outbox.put(EndOfStream())
    except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
        _fail(stage.name, error, outbox)


def _run_order(
    name: str, work: SourceWork, order: Any, outbox: Any, free: Any, slots: _Slots
) -> None:
    waiter = Waiter(SYSTEM_CLOCK)
    slot = free.get()
    values = work(order, waiter, lambda: slots[slot])
    while True:
        start_ns = SYSTEM_CLOCK.now_ns()
        try:
            value = next(values)
        except StopIteration:
            free.put(slot)
            return
        span = Span(name, max(start_ns, waiter.resumed_ns), SYSTEM_CLOCK.now_ns())
        outbox.put(SharedItem(slot=slot, value=value, spans=(span,)))
        slot = free.get()


def run_stage(stage: ProcessStage, memory: Any, slot_bytes: int, inbox: Any, outbox: Any) -> None:
    """Run any other stage: work on each item, and pass on everything else."""
    slots = _Slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            while True:
                item = inbox.get()
                if isinstance(item, SharedItem):
                    start_ns = SYSTEM_CLOCK.now_ns()
                    value = work(slots[item.slot], item.value)
                    span = Span(stage.name, start_ns, SYSTEM_CLOCK.now_ns())
                    item = replace(item, value=value, spans=(*item.spans, span))
                outbox.put(item)
    except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
        _fail(stage.name, error, outbox)


def _fail(name: str, error: BaseException, outbox: Any) -> None:
    """Send the error to the parent, and wait to be ended: an exit would look like a crash."""
    if not isinstance(error, HeadraceError):
        message = f"stage {name!r} failed: {type(error).__name__}: {error}"
        error = StageError(message, stage=name)
    outbox.put(StageFailure(error))
    threading.Event().wait()


_POLL_SECONDS: Final = 0.2
"""Seconds without a result after which processes are checked for crashes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PipelineOutput:
    """One item that left the last process."""

    value: Any
    """Value of the last stage."""
    spans: tuple[Span, ...]
    """When each stage worked on it, the source first."""
    memory: memoryview
    """The item's memory; valid until the next item is taken."""


class ProcessPipeline:
    """Stages in processes: `with ProcessPipeline(...) as line: for item in line.run(order): ...`.

    Entering waits until all of them are ready, which takes seconds where they import PyTorch.
    Leaving ends them all, in any case; they also end with this process, and get no Ctrl-C. Not
    thread-safe.
    """

    def __init__(
        self,
        stages: Sequence[ProcessStage],
        *,
        slot_bytes: int,
        slots: int,
        capacity: int = 2,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Start nothing yet.

        Args:
            stages: The source first.
            slot_bytes: Bytes of an item's memory.
            slots: Items in the pipeline, at most.
            capacity: Items that may wait behind a stage.
            clock: Times the start.

        Raises:
            ConfigError: there is no stage, or a number is below 1.
        """
        if not stages or slots < 1 or slot_bytes < 1 or capacity < 1:
            raise ConfigError(
                "a line of processes needs stages, and slots, slot_bytes and capacity >= 1, got "
                f"{len(stages)} stages, {slots}, {slot_bytes} and {capacity}"
            )
        self._stages = tuple(stages)
        self._slot_bytes = slot_bytes
        self._num_slots = slots
        self._capacity = capacity
        self._clock = clock
        self._processes = SpawnedProcesses(are_daemons=True)
        self._queues: list[Any] = []
        self._slots: _Slots | None = None
        self.start_seconds = 0.0
        """Seconds until all processes were ready."""

    def __enter__(self) -> "ProcessPipeline":
        start_ns = self._clock.now_ns()
        try:
            self._start()
            self._next()
        except BaseException:
            self.close()
            raise
        self.start_seconds = (self._clock.now_ns() - start_ns) / 1e9
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, order: Any) -> Generator[PipelineOutput, None, None]:
        """Send the source an order and yield its items, in order; read it to its end.

        Raises:
            HeadraceError: as a stage raised it.
            StageError: a stage raised another exception, or its process was ended.
        """
        assert self._slots is not None
        self._orders.put(order)
        while isinstance(item := self._next(), SharedItem):
            memory = self._slots[item.slot]
            yield PipelineOutput(value=item.value, spans=item.spans, memory=memory)
            self._free.put(item.slot)

    def close(self) -> None:
        """End all processes, and release their shared memory. May be called again."""
        self._processes.close()
        for queue in self._queues:
            queue.close()
            queue.join_thread()
        self._queues, self._slots = [], None

    def _start(self) -> None:
        memory = CONTEXT.RawArray("B", self._num_slots * self._slot_bytes)
        self._slots = _Slots(memory, self._slot_bytes)
        self._orders, self._free = CONTEXT.Queue(), CONTEXT.Queue()
        outboxes = [CONTEXT.Queue(self._capacity) for _ in self._stages]
        self._queues = [self._orders, self._free, *outboxes]
        for slot in range(self._num_slots):
            self._free.put(slot)
        inbox: Any = self._orders
        for index, (stage, outbox) in enumerate(zip(self._stages, outboxes, strict=True)):
            name, shared = (
                f"headrace-{stage.name}",
                (stage, memory, self._slot_bytes, inbox, outbox),
            )
            if index == 0:
                self._processes.start(name, run_source, *shared, self._free)
            else:
                self._processes.start(name, run_stage, *shared)
            inbox = outbox
        self._results = inbox

    def _next(self) -> Any:
        """Return the next item or `EndOfStream`; raise what a stage failed with."""
        while True:
            try:
                result = self._results.get(timeout=_POLL_SECONDS)
            except Empty:
                self._check_alive()
                continue
            if isinstance(result, StageFailure):
                raise result.error
            return result

    def _check_alive(self) -> None:
        for stage, code in zip(self._stages, self._processes.exit_codes(), strict=True):
            if code is not None:
                outcome = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                message = f"the process of stage {stage.name!r} ended {outcome}"
                raise StageError(message, stage=stage.name)
