"""Many streams produced at once and delivered one after the other, in the order asked for.

Invariant, and why nothing can wait for ever: an item's stream enters `_order` before the item
enters `_tasks`, and both are first in, first out. So the stream that the consumer reads belongs to
the oldest unfinished item. Every item before it is done, hence a worker has it or is free to take
it, and that worker waits for nothing but room in this very stream, which the consumer is emptying.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.hang_detector import HangDetector
from headrace.runtime.queue import BoundedQueue, Cancelled
from headrace.runtime.threads import ThreadGroup, iterating
from headrace.units import check_integers

Item = TypeVar("Item")
Out = TypeVar("Out")

OpenWorker = Callable[[], AbstractContextManager[Callable[[Item], Iterable[Out]]]]
"""Opens what one worker thread keeps, such as decoders, and gives the function it runs."""


def ordered_streams(
    open_worker: OpenWorker[Item, Out],
    items: Iterable[Item],
    *,
    workers: int,
    capacity: int,
    lookahead: int | None = None,
    name: str = "streams",
    stall_seconds: float | None = None,
    describe: Callable[[Item], str] = repr,
    on_cancel: Callable[[], None] = lambda: None,
    clock: Clock = SYSTEM_CLOCK,
) -> Generator[Out, None, None]:
    """Yields all outputs of the first item, then of the second, ..., made by several threads.

    Threads start with the first output asked for. They are cancelled and joined when the generator
    ends in any way: exhausted, closed, garbage, an exception; iterate `with closing(...)` around
    it to be sure when. A function at work is waited for until its next output.

    Args:
        open_worker: A context manager that gives the function item -> outputs, best a generator.
            Entered once in each worker thread, with its first item, and exited there: the place
            for what a thread keeps, such as decoders. For a function without any:
            `lambda: nullcontext(function)`.
        items: Read lazily, in a thread of its own; a generator is closed there.
        workers: Threads that run items: each takes the next item when it is free.
        capacity: Outputs of one item that may wait for the consumer.
        lookahead: Items that may run, or wait finished, behind the one being delivered; more of
            it keeps workers busy when items differ in length. None means `workers`. At most
            `(1 + lookahead) * capacity` outputs wait, and each worker may hold one more.
        name: What the threads are called after.
        stall_seconds: How long the consumer waits for a worker that gives nothing before it says
            that it hangs, and how long one is waited for at the end. None waits for ever.
        describe: Names an item in that message.
        on_cancel: Called before threads are joined: wakes `items` where it waits for something.
        clock: Tells how long a worker has been at one output.

    Raises:
        StageError: A worker has been at one output for `stall_seconds`. It is left behind.
        ConfigError: `workers`, `capacity` or `lookahead` is below 1.
        Exception: What `open_worker`, its function or `items` raised, at that item's place in the
            order: all outputs before it are delivered.
    """
    lookahead = workers if lookahead is None else lookahead
    if min(workers, capacity, lookahead) < 1:
        raise ConfigError(
            "workers, capacity and lookahead must be >= 1, "
            f"got {workers}, {capacity} and {lookahead}"
        )
    watch = HangDetector(stall_seconds, describe, clock)
    streams = _OrderedStreams(open_worker, items, capacity, lookahead, name, watch, on_cancel)
    return streams.deliver(workers)


class _Stream(Generic[Out]):
    """The outputs of one item. What is raised inside its `with` block ends it for its reader."""

    def __init__(self, capacity: int) -> None:
        self._queue: BoundedQueue[Out] = BoundedQueue(capacity, "stream")
        self._error: BaseException | None = None
        self.put = self._queue.put
        self.cancel = self._queue.cancel

    def __enter__(self) -> "_Stream[Out]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._error = error
        self._queue.close()
        return True

    def outputs(self, watch: "HangDetector[Item]") -> Iterator[Out]:
        yield from watch.taken_from(self._queue)
        if self._error is not None:
            raise self._error


class _OrderedStreams(Generic[Item, Out]):
    def __init__(
        self,
        open_worker: OpenWorker[Item, Out],
        items: Iterable[Item],
        capacity: int,
        lookahead: int,
        name: str,
        watch: "HangDetector[Item]",
        on_cancel: Callable[[], None],
    ) -> None:
        self._watch = watch
        self._on_cancel = on_cancel
        self._open_worker = open_worker
        self._items = items
        self._capacity = capacity
        self._name = name
        self._order: BoundedQueue[_Stream[Out]] = BoundedQueue(lookahead, f"{name}-order")
        self._tasks: BoundedQueue[tuple[Item, _Stream[Out]]] = BoundedQueue(1, f"{name}-tasks")
        self._undelivered: deque[_Stream[Out]] = deque()

    def deliver(self, workers: int) -> Generator[Out, None, None]:
        with ThreadGroup(self._cancel, self._watch.stall_seconds) as threads:
            self._watch.abandon = threads.abandon
            threads.start(f"{self._name}-items", self._feed)
            for worker in range(workers):
                name = f"{self._name}-{worker}"
                threads.start(name, partial(self._work, name))
            for stream in self._watch.taken_from(self._order):
                yield from stream.outputs(self._watch)
                self._undelivered.popleft()

    def _feed(self) -> None:
        end: _Stream[Out] = _Stream(self._capacity)  # holds nothing but how `items` ended
        with suppress(Cancelled):
            with end, iterating(self._items) as items:
                for item in items:
                    stream = self._append(_Stream(self._capacity))
                    self._tasks.put((item, stream))
            self._append(end)
            self._order.close()
            self._tasks.close()

    def _append(self, stream: _Stream[Out]) -> _Stream[Out]:
        # Known to `_cancel` before any worker can wait in it.
        self._undelivered.append(stream)
        self._order.put(stream)
        return stream

    def _work(self, name: str) -> None:
        with suppress(Cancelled), ExitStack() as kept:
            function: Callable[[Item], Iterable[Out]] | None = None
            for item, stream in self._tasks:
                with stream, self._watch.at_work(name, item):
                    function = function or kept.enter_context(self._open_worker())
                    with iterating(function(item)) as outputs:
                        for output in outputs:
                            self._watch.rests(name)
                            stream.put(output)
                            self._watch.works(name, item)

    def _cancel(self) -> None:
        self._on_cancel()
        self._order.cancel()
        self._tasks.cancel()
        for stream in tuple(self._undelivered):
            stream.cancel()


_AHEAD: Final = 1
"""Items that wait for a worker, so that none of them waits for the consumer."""


@dataclass(frozen=True)
class _End:
    """The end of an item."""

    error: BaseException | None


def unordered_streams(
    open_worker: Callable[[], AbstractContextManager[Callable[[Item], Iterable[Out]]]],
    items: Iterable[Item],
    *,
    workers: int,
    capacity: int,
    name: str = "streams",
) -> Generator[Out, None, None]:
    """Yields the outputs of all items as several threads make them, those of one item in order.

    Items are taken in the thread that iterates this, a few ahead of the workers: what happens there
    happens in one thread. Threads are cancelled and joined when the generator ends in any way;
    iterate `with closing(...)` around it to be sure when.

    Args:
        open_worker: A context manager that gives the function item -> outputs; entered once in
            each worker thread, with its first item, and exited there.
        items: Read lazily; a generator is closed here.
        workers: Threads that run items.
        capacity: Outputs that may wait for the consumer; each worker may hold one more.
        name: What the threads are called after.

    Raises:
        ConfigError: `workers` or `capacity` is below 1.
        Exception: What `open_worker` or its function raised, when it comes up.
    """
    check_integers(1, workers=workers, capacity=capacity)
    return _deliver(open_worker, items, workers, capacity, name)


def _deliver(
    open_worker: Callable[[], AbstractContextManager[Callable[[Any], Iterable[Any]]]],
    items: Iterable[Any],
    workers: int,
    capacity: int,
    name: str,
) -> Generator[Any, None, None]:
    tasks: BoundedQueue[Any] = BoundedQueue(workers + _AHEAD, f"{name}-tasks")
    outputs: BoundedQueue[Any] = BoundedQueue(capacity, f"{name}-outputs")

    def cancel() -> None:
        tasks.cancel()
        outputs.cancel()

    with iterating(items) as source, ThreadGroup(cancel) as threads:
        for worker in range(workers):
            threads.start(f"{name}-{worker}", partial(_work, open_worker, tasks, outputs))
        under_way, is_over = 0, False
        while True:
            while under_way < workers + _AHEAD and not is_over:
                item = next(source, threads)
                is_over = item is threads
                if not is_over:
                    tasks.put(item)
                    under_way += 1
            if not under_way:
                return
            output = outputs.get()
            if not isinstance(output, _End):
                yield output
                continue
            under_way -= 1
            if output.error is not None:
                raise output.error


def _work(
    open_worker: Callable[[], AbstractContextManager[Callable[[Any], Iterable[Any]]]],
    tasks: BoundedQueue[Any],
    outputs: BoundedQueue[Any],
) -> None:
    with suppress(Cancelled), ExitStack() as kept:
        function: Callable[[Any], Iterable[Any]] | None = None
        for item in tasks:
            error: BaseException | None = None
            try:
                function = function or kept.enter_context(open_worker())
                with iterating(function(item)) as made:
                    for output in made:
                        outputs.put(output)
            except Cancelled:
                raise
            except BaseException as raised:  # noqa: BLE001 - raised in the consumer's thread
                error = raised
            outputs.put(_End(error))
