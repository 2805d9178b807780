"""A line of stages, each in a process of its own, joined by queues; what is large is shared memory.

The same stages in threads are a `Pipeline`. Processes do not share the interpreter's lock, but each
begins with importing what it needs, and all that goes between them is copied into shared memory.
"""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from queue import Empty
from typing import Any, Final

from headrace.errors import ConfigError, HeadraceError, StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.item import Span
from headrace.runtime.posix import end_with_parent, held_interrupts
from headrace.runtime.waitable_source import Waiter

StageWork = Callable[[memoryview, Any], Any]
"""Given the memory of a parcel and what the stage before made of it; returns what it makes."""
SourceWork = Callable[[Any, Waiter, Callable[[], memoryview]], Iterator[Any]]
"""Given an order, a waiter for its pace and what returns the memory for the next parcel; yields
what it put there."""


@dataclass(frozen=True, kw_only=True)
class ProcessStage:
    """One step, to be run in a process of its own."""

    name: str
    make: Callable[[Any], AbstractContextManager[Any]]
    """Called there once: gives a `SourceWork` for the first stage, a `StageWork` for the others.
    A function of a module's own, which new processes import by its name."""
    argument: Any = None
    """What `make` is called with; goes there by pickling."""


@dataclass(frozen=True, kw_only=True)
class SharedItem:
    """What goes from process to process: something small, and the number of its memory."""

    slot: int
    """Which of the memories that all processes share."""
    value: Any
    spans: tuple[Span, ...]
    """When each stage so far worked on it, by the clock that all processes of a machine share."""


@dataclass(frozen=True)
class StageFailure:
    """A stage failed; passed on to who reads the results."""

    error: HeadraceError


@dataclass(frozen=True)
class EndOfStream:
    """All of an order was sent; the first one says that every process is ready."""


class _Slots:
    """The memories that all processes share, one after the other."""

    def __init__(self, memory: Any, slot_bytes: int) -> None:
        self._whole = memoryview(memory).cast("B")
        self._bytes = slot_bytes

    def __getitem__(self, slot: int) -> memoryview:
        return self._whole[slot * self._bytes : (slot + 1) * self._bytes]


def run_source(
    stage: ProcessStage, inbox: Any, outbox: Any, free: Any, memory: Any, slot_bytes: int
) -> None:
    """Run the first stage: for each order that comes, send its parcels and then `EndOfStream`."""
    end_with_parent()
    slots = _Slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            outbox.put(EndOfStream())
            while True:
                _send_order(stage.name, work, inbox.get(), outbox, free, slots)
                outbox.put(EndOfStream())
    except BaseException as error:  # noqa: BLE001 - told to the parent, which raises it
        _fail(stage.name, error, outbox)


def _send_order(
    name: str, work: SourceWork, order: Any, outbox: Any, free: Any, slots: _Slots
) -> None:
    waiter = Waiter(SYSTEM_CLOCK)
    slot = free.get()
    values = work(order, waiter, lambda: slots[slot])
    while True:
        asked_ns = SYSTEM_CLOCK.now_ns()
        try:
            value = next(values)
        except StopIteration:
            free.put(slot)
            return
        span = Span(name, max(asked_ns, waiter.resumed_ns), SYSTEM_CLOCK.now_ns())
        outbox.put(SharedItem(slot=slot, value=value, spans=(span,)))
        slot = free.get()


def run_stage(stage: ProcessStage, inbox: Any, outbox: Any, memory: Any, slot_bytes: int) -> None:
    """Run any other stage: work on each parcel, and pass on all else."""
    end_with_parent()
    slots = _Slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            while True:
                parcel = inbox.get()
                if isinstance(parcel, SharedItem):
                    began_ns = SYSTEM_CLOCK.now_ns()
                    value = work(slots[parcel.slot], parcel.value)
                    span = Span(stage.name, began_ns, SYSTEM_CLOCK.now_ns())
                    parcel = replace(parcel, value=value, spans=(*parcel.spans, span))
                outbox.put(parcel)
    except BaseException as error:  # noqa: BLE001 - told to the parent, which raises it
        _fail(stage.name, error, outbox)


def _fail(name: str, error: BaseException, outbox: Any) -> None:
    """Tell the parent, and wait to be ended: a process that ends by itself was ended by others."""
    if not isinstance(error, HeadraceError):
        words = f"stage {name!r} failed: {type(error).__name__}: {error}"
        error = StageError(words, stage=name)
    outbox.put(StageFailure(error))
    threading.Event().wait()


_LOOK_SECONDS: Final = 0.2
"""After which a process that was ended from outside is noticed."""
_GRACE_SECONDS: Final = 5.0
"""Between the request to end (SIGTERM) and the end (SIGKILL)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PipelineOutput:
    """What came out of the last process."""

    value: Any
    """What the last stage made of it."""
    spans: tuple[Span, ...]
    """When each stage worked on it, the source first."""
    memory: memoryview
    """Of this parcel; valid until the next one is asked for."""


class ProcessPipeline:
    """Stages in processes: `with ProcessPipeline(...) as line: for item in line.run(order): ...`.

    Entering waits until all of them are ready, which takes seconds where they import PyTorch.
    Leaving ends them all, in any way; they end too when this process does, and get no Ctrl-C. Not
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
            slot_bytes: Memory of one parcel.
            slots: Parcels on their way at most.
            capacity: Parcels that may wait behind a stage.
            clock: Times the start.

        Raises:
            ConfigError: there is no stage, or no room.
        """
        if not stages or slots < 1 or slot_bytes < 1 or capacity < 1:
            raise ConfigError(
                "a line of processes needs stages, and slots, slot_bytes and capacity >= 1, got "
                f"{len(stages)} stages, {slots}, {slot_bytes} and {capacity}"
            )
        self._stages = tuple(stages)
        self._slot_bytes = slot_bytes
        self._slots = slots
        self._capacity = capacity
        self._clock = clock
        self._processes: list[Any] = []
        self._queues: list[Any] = []
        self._memory: Any = None
        self.start_seconds = 0.0
        """How long it took until all were ready."""

    def __enter__(self) -> "ProcessPipeline":
        began_ns = self._clock.now_ns()
        try:
            self._start()
            self._next()
        except BaseException:
            self.close()
            raise
        self.start_seconds = (self._clock.now_ns() - began_ns) / 1e9
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, order: Any) -> Generator[PipelineOutput, None, None]:
        """Give the source an order and yield what comes out, in order; to be read to its end.

        Raises:
            HeadraceError: as a stage raised it.
            StageError: a stage raised anything else, or its process was ended.
        """
        self._orders.put(order)
        while isinstance(parcel := self._next(), SharedItem):
            start = parcel.slot * self._slot_bytes
            memory = memoryview(self._memory).cast("B")[start : start + self._slot_bytes]
            yield PipelineOutput(value=parcel.value, spans=parcel.spans, memory=memory)
            self._free.put(parcel.slot)

    def close(self) -> None:
        """End all processes, and give back what they shared. Harmless when repeated."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(_GRACE_SECONDS)
            process.kill()
            process.join()
            process.close()
        for queue in self._queues:
            queue.close()
            queue.join_thread()
        self._processes, self._queues, self._memory = [], [], None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._memory = context.RawArray("B", self._slots * self._slot_bytes)
        self._orders, self._free = context.Queue(), context.Queue()
        boxes = [context.Queue(self._capacity) for _ in self._stages]
        self._queues = [self._orders, self._free, *boxes]
        self._results = boxes[-1]
        for slot in range(self._slots):
            self._free.put(slot)
        inboxes = [self._orders, *boxes[:-1]]
        for number, (stage, inbox, outbox) in enumerate(
            zip(self._stages, inboxes, boxes, strict=True)
        ):
            ends = (stage, inbox, outbox, *((self._free,) if number == 0 else ()))
            process = context.Process(
                target=run_source if number == 0 else run_stage,
                args=(*ends, self._memory, self._slot_bytes),
                name=f"headrace-{stage.name}",
                daemon=True,
            )
            with held_interrupts(), _without_interrupts():
                process.start()
                self._processes.append(process)

    def _next(self) -> Any:
        """Return the next parcel, or what is no parcel; raises what a stage failed with."""
        while True:
            try:
                found = self._results.get(timeout=_LOOK_SECONDS)
            except Empty:
                self._check_alive()
                continue
            if isinstance(found, StageFailure):
                raise found.error
            return found

    def _check_alive(self) -> None:
        for stage, process in zip(self._stages, self._processes, strict=True):
            code = process.exitcode
            if code is not None and code < 0:
                how = f"by signal {-code}"
            elif code is not None:
                how = f"with exit code {code}"
            else:
                continue
            raise StageError(f"the process of stage {stage.name!r} ended {how}", stage=stage.name)


@contextmanager
def _without_interrupts() -> Generator[None, None, None]:
    """Have processes that are started here ignore Ctrl-C, which is their parent's to act on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
