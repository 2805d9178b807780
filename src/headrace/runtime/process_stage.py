"""What runs in each process of a `ProcessLine`: take a parcel, work on it, hand it on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import HeadraceError, StageError
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.item import Span
from headrace.runtime.parent_end import end_with_parent
from headrace.runtime.waiter import Waiter

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
class Parcel:
    """What goes from process to process: something small, and the number of its memory."""

    slot: int
    """Which of the memories that all processes share."""
    value: Any
    spans: tuple[Span, ...]
    """When each stage so far worked on it, by the clock that all processes of a machine share."""


@dataclass(frozen=True)
class Failed:
    """A stage failed; passed on to who reads the results."""

    error: HeadraceError


@dataclass(frozen=True)
class Done:
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
    """Run the first stage: for each order that comes, send its parcels and then `Done`."""
    end_with_parent()
    slots = _Slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            outbox.put(Done())
            while True:
                _send_order(stage.name, work, inbox.get(), outbox, free, slots)
                outbox.put(Done())
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
        outbox.put(Parcel(slot=slot, value=value, spans=(span,)))
        slot = free.get()


def run_stage(stage: ProcessStage, inbox: Any, outbox: Any, memory: Any, slot_bytes: int) -> None:
    """Run any other stage: work on each parcel, and pass on all else."""
    end_with_parent()
    slots = _Slots(memory, slot_bytes)
    try:
        with stage.make(stage.argument) as work:
            while True:
                parcel = inbox.get()
                if isinstance(parcel, Parcel):
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
    outbox.put(Failed(error))
    threading.Event().wait()
