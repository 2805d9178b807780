"""Pipeline with stages in processes: queues carry small values, shared memory the large ones.

`Pipeline` runs stages in threads. Processes do not share the interpreter's lock, but each imports
its modules at its start, and data between them is copied into shared memory.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from queue import Empty
from typing import Any, Final, cast

from headrace.errors import HeadraceError, StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.spawned_processes import CONTEXT, SpawnedProcesses
from headrace.runtime.stage import Span
from headrace.runtime.waitable_source import Waiter
from headrace.units import check_integers

StageWork = Callable[[memoryview, Any], Any]
"""Called with an item's memory and the previous stage's value; returns the new value."""
SourceWork = Callable[[Any, Waiter, Callable[[], memoryview]], Iterator[Any]]
"""Called with an order, a waiter for its pace and a function that returns the next item's memory.
Writes items there and yields the value of each."""


@dataclass(frozen=True, kw_only=True)
class ProcessStage:
    """A stage in its own process."""

    name: str
    make: Callable[[Any], AbstractContextManager[Any]]
    """Called once in the process: yields a `SourceWork` for the first stage, a `StageWork` for
    other stages. A module-level function, which the process imports by its name."""
    argument: Any = None
    """Argument of `make`, sent by pickling."""


@dataclass(frozen=True, kw_only=True)
class SharedItem:
    """Message of the queues: a small value, and its slot of shared memory."""

    slot: int
    """Index of the slot."""
    value: Any
    spans: tuple[Span, ...]
    """One per stage so far, the source first, by the clock that all processes of a machine
    share."""


def run_process(
    stage: ProcessStage, memory: Any, slot_bytes: int, inbox: Any, outbox: Any, free: Any = None
) -> None:
    """Run a stage until its process is terminated; for the source, `free` has the free slots.

    Messages are `SharedItem`s; None after the items of an order, and once at the start, when all
    earlier stages are ready; or the error of a failed stage.
    """
    slots = _slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            messages = (
                _stage_messages(stage.name, work, slots, inbox)
                if free is None
                else _source_messages(stage.name, work, slots, inbox, free)
            )
            for message in messages:
                outbox.put(message)
    except BaseException as error:  # noqa: BLE001 - sent to the parent, which raises it
        if not isinstance(error, HeadraceError):
            message = f"stage {stage.name!r} failed: {type(error).__name__}: {error}"
            error = StageError(message, stage=stage.name)
        outbox.put(error)
        threading.Event().wait()  # until terminated: an exit would look like a crash


def _slots(memory: Any, slot_bytes: int) -> list[memoryview]:
    """Return the equal slots of the shared memory."""
    view = memoryview(memory).cast("B")
    return [view[start : start + slot_bytes] for start in range(0, len(view), slot_bytes)]


def _source_messages(
    name: str, work: SourceWork, slots: Sequence[memoryview], orders: Any, free: Any
) -> Iterator[SharedItem | None]:
    yield None
    while True:
        order, waiter, slot = orders.get(), Waiter(SYSTEM_CLOCK), free.get()
        start_ns = SYSTEM_CLOCK.now_ns()
        for value in work(order, waiter, lambda: slots[slot]):  # noqa: B023
            span = Span(name, max(start_ns, waiter.resumed_ns), SYSTEM_CLOCK.now_ns())
            yield SharedItem(slot=slot, value=value, spans=(span,))
            slot, start_ns = free.get(), SYSTEM_CLOCK.now_ns()
        free.put(slot)
        yield None


def _stage_messages(
    name: str, work: StageWork, slots: Sequence[memoryview], inbox: Any
) -> Iterator[Any]:
    while True:
        message = inbox.get()
        if isinstance(message, SharedItem):
            start_ns = SYSTEM_CLOCK.now_ns()
            value = work(slots[message.slot], message.value)
            span = Span(name, start_ns, SYSTEM_CLOCK.now_ns())
            message = replace(message, value=value, spans=(*message.spans, span))
        yield message


_POLL_SECONDS: Final = 0.2
"""Interval of checks for crashed processes, without a result."""


class ProcessPipeline:
    """Stages in processes: `with ProcessPipeline(...) as line: for item in line.run(order): ...`.

    Entering waits until all processes are ready, which takes seconds if they import PyTorch.
    Leaving terminates them, in any case; they also end with this process, and receive no Ctrl-C.
    Not thread-safe.
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
            slots: Maximum number of items in the pipeline.
            capacity: Capacity of the queue behind each stage.
            clock: Clock that measures the start.

        Raises:
            ConfigError: there is no stage, or a number is below 1.
        """
        numbers = {"slot_bytes": slot_bytes, "slots": slots, "capacity": capacity}
        check_integers(1, stages=len(stages), **numbers)
        self._stages = tuple(stages)
        self._slot_bytes = slot_bytes
        self._num_slots = slots
        self._capacity = capacity
        self._clock = clock
        self._processes = SpawnedProcesses(are_daemons=True)
        self._queues: list[Any] = []
        self._slots: list[memoryview] = []
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

    def run(self, order: Any) -> Generator[tuple[SharedItem, memoryview], None, None]:
        """Send an order to the source; yield its items in order, each with its memory.

        The memory of an item is valid until the next `next`.

        Raises:
            HeadraceError: a stage raised it.
            StageError: a stage raised another exception, or its process ended.
        """
        self._orders.put(order)
        while (item := self._next()) is not None:
            yield item, self._slots[item.slot]
            self._free.put(item.slot)

    def close(self) -> None:
        """Terminate all processes, and release the shared memory. May be called again."""
        self._processes.close()
        for queue in self._queues:
            queue.close()
            queue.join_thread()
        self._queues, self._slots = [], []

    def _start(self) -> None:
        memory = CONTEXT.RawArray("B", self._num_slots * self._slot_bytes)
        self._slots = _slots(memory, self._slot_bytes)
        self._orders, self._free = CONTEXT.Queue(), CONTEXT.Queue()
        outboxes = [CONTEXT.Queue(self._capacity) for _ in self._stages]
        self._queues = [self._orders, self._free, *outboxes]
        for slot in range(self._num_slots):
            self._free.put(slot)
        inbox: Any = self._orders
        free: tuple[Any, ...] = (self._free,)  # for the source only
        for stage, outbox in zip(self._stages, outboxes, strict=True):
            name, shared = f"headrace-{stage.name}", (memory, self._slot_bytes, inbox, outbox)
            self._processes.start(name, run_process, stage, *shared, *free)
            inbox, free = outbox, ()
        self._results = inbox

    def _next(self) -> SharedItem | None:
        """Return the next item, None at the end of an order; raise the error of a failed stage."""
        while True:
            try:
                result = self._results.get(timeout=_POLL_SECONDS)
            except Empty:
                self._check_alive()
                continue
            if isinstance(result, HeadraceError):
                raise result
            return cast(SharedItem | None, result)

    def _check_alive(self) -> None:
        for stage, code in zip(self._stages, self._processes.exit_codes(), strict=True):
            if code is not None:
                outcome = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                message = f"the process of stage {stage.name!r} ended {outcome}"
                raise StageError(message, stage=stage.name)
