"""Parallel map over a stream in threads, each item to many outputs: in order, or as completed.

Why ordered delivery cannot deadlock: an item's stream enters `order` before the item enters
`tasks`, and both are first in, first out. So the stream that the consumer reads belongs to the
oldest unfinished item. All earlier items are done, hence a worker has this item or is free to take
it, and that worker waits only for room in this stream, which the consumer empties.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from headrace.errors import StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Cancelled, Closed
from headrace.runtime.synchronization import ThreadGroup, closing_iterator
from headrace.units import check_integers

Item = TypeVar("Item")
Out = TypeVar("Out")

OpenWorker = Callable[[], AbstractContextManager[Callable[[Item], Iterable[Out]]]]
"""Opens a worker thread's resources, such as decoders, and yields the function to run."""


def imap(
    open_worker: OpenWorker[Item, Out],
    items: Iterable[Item],
    *,
    workers: int,
    capacity: int,
    is_ordered: bool = True,
    lookahead: int | None = None,
    name: str = "streams",
    stall_seconds: float | None = None,
    describe: Callable[[Item], str] = repr,
    on_cancel: Callable[[], None] = lambda: None,
    clock: Clock = SYSTEM_CLOCK,
) -> Generator[Out, None, None]:
    """Yield the outputs of all items, computed in several threads.

    Threads start at the first `next`. They are cancelled and joined when the generator ends in any
    way; use `closing(...)` to end it deterministically. A running function ends at its next output.

    Args:
        open_worker: Returns a context manager that yields the function item -> outputs, best a
            generator. It is entered once in each worker thread, with the first item, and exited
            there. For a function without resources: `lambda: nullcontext(function)`.
        items: The items, read lazily in their own thread, or in the consumer's thread if not
            `is_ordered`; a generator is closed there.
        workers: Number of threads that run items; each takes the next item when it is free.
        capacity: Outputs that may wait for the consumer: per item, or in total if not `is_ordered`.
            Each worker may hold one more.
        is_ordered: Whether outputs are in the order of items. Otherwise they are delivered as they
            are ready, in order within an item.
        lookahead: If `is_ordered`, the number of items that may run or wait behind the delivered
            one: more keep workers busy if items differ in length. None means `workers`. At most
            `(1 + lookahead) * capacity` outputs wait.
        name: Prefix of the threads' names.
        stall_seconds: Seconds without an output after which a worker counts as hanging, and time
            limit for joining a thread. None: no limit.
        describe: Returns an item's name for that message.
        on_cancel: Called before threads are joined, to wake `items` if it waits.
        clock: Clock that detects hangs.

    Raises:
        StageError: a worker has worked on one output for `stall_seconds`; it is abandoned.
        ConfigError: `workers`, `capacity` or `lookahead` is below 1.
        Exception: raised by `open_worker`, its function or `items`; after all earlier outputs if
            `is_ordered`, else at once.
    """
    lookahead = workers if lookahead is None else lookahead
    check_integers(1, workers=workers, capacity=capacity, lookahead=lookahead)
    detector = HangDetector(stall_seconds, describe, clock)
    tasks = 1 if is_ordered else workers + 1
    pool = _Workers(open_worker, workers, name, detector, BoundedQueue(tasks, f"{name}-tasks"))
    if is_ordered:
        return _deliver_in_order(pool, items, capacity, lookahead, on_cancel)
    return _deliver_as_ready(pool, items, capacity, on_cancel)


_ABANDON_SHARE = 0.5
"""When a worker hangs, other workers that are busy for this share of `stall_seconds` are abandoned
too: a dead mount, for example, stalls several files."""


class HangDetector(Generic[Item]):
    """Records when each worker started its item, and reports a worker that hangs."""

    def __init__(
        self,
        stall_seconds: float | None,
        describe: Callable[[Item], str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Watch no worker yet; without `stall_seconds` no worker counts as hanging."""
        self.stall_seconds = stall_seconds
        """Seconds without an output after which a worker counts as hanging."""
        self._describe = describe
        self._clock = clock
        self._since: dict[str, tuple[int, Item]] = {}
        self.abandon: Callable[[str], None] = lambda name: None
        """Called with the name of each worker to abandon."""

    @contextmanager
    def watch(self, name: str, item: Item) -> Iterator[None]:
        """Record that a worker works on an item inside the block."""
        self.start(name, item)
        try:
            yield
        finally:
            self.stop(name)

    def start(self, name: str, item: Item) -> None:
        """Record that a worker starts its next output."""
        if self.stall_seconds is not None:
            self._since[name] = self._clock.now_ns(), item

    def stop(self, name: str) -> None:
        """Record that a worker waits for other threads, or is done."""
        self._since.pop(name, None)

    def iterate(self, queue: BoundedQueue[Out]) -> Iterator[Out]:
        """Yield the items of a queue until it is closed.

        Raises:
            StageError: the queue stays empty, and a worker hangs.
        """
        while True:
            try:
                yield queue.get(self.stall_seconds)
            except Closed:
                return
            except TimeoutError:
                self._check()

    def _check(self) -> None:
        now_ns, limit = self._clock.now_ns(), self.stall_seconds or 0.0
        working = [
            ((now_ns - since_ns) / 1e9, name, item)
            for name, (since_ns, item) in tuple(self._since.items())
        ]
        if not working:
            return
        seconds, name, item = max(working, key=lambda worker: worker[0])
        if seconds < limit:
            return
        for other_seconds, other, _ in working:
            if other_seconds >= limit * _ABANDON_SHARE:
                self.abandon(other)
        raise StageError(
            f"worker {name} has worked on {self._describe(item)} for {seconds:.0f} s without a "
            "result; check that its file can be read, or allow more time",
            stage=name,
            item=item,
        )


Stream = BoundedQueue[Any]
"""Outputs of one item, or of all items; `_End` follows the outputs of each item."""


@dataclass(frozen=True)
class _End:
    """The end of an item, or of `items`."""

    error: BaseException | None


@contextmanager
def _ended(stream: Stream) -> Iterator[None]:
    """Put an `_End` into the stream after the block, with the block's exception, if any."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - it is raised in the consumer's thread
        stream.put(_End(error), takes_room=False)
    else:
        stream.put(_End(None), takes_room=False)


@dataclass(frozen=True, eq=False)
class _Workers(Generic[Item, Out]):
    """Threads that take items with their streams, and put outputs into the streams."""

    open_worker: OpenWorker[Item, Out]
    count: int
    name: str
    detector: HangDetector[Item]
    tasks: BoundedQueue[tuple[Item, Stream]]

    def threads(self, cancel: Callable[[], None]) -> ThreadGroup:
        """Return the group to start the threads in."""
        threads = ThreadGroup(cancel, self.detector.stall_seconds)
        self.detector.abandon = threads.abandon
        return threads

    def start(self, threads: ThreadGroup) -> None:
        for worker in range(self.count):
            name = f"{self.name}-{worker}"
            threads.start(name, partial(self._run, name))

    def _run(self, name: str) -> None:
        with suppress(Cancelled), ExitStack() as stack:
            function: Callable[[Item], Iterable[Out]] | None = None
            for item, stream in self.tasks:
                with _ended(stream), self.detector.watch(name, item):
                    function = function or stack.enter_context(self.open_worker())
                    with closing_iterator(function(item)) as outputs:
                        for output in outputs:
                            self.detector.stop(name)
                            stream.put(output)
                            self.detector.start(name, item)


def _deliver_in_order(
    workers: _Workers[Item, Out],
    items: Iterable[Item],
    capacity: int,
    lookahead: int,
    on_cancel: Callable[[], None],
) -> Generator[Out, None, None]:
    order: BoundedQueue[Stream] = BoundedQueue(lookahead, f"{workers.name}-order")
    undelivered: deque[Stream] = deque()

    def cancel() -> None:
        on_cancel()
        order.cancel()
        workers.tasks.cancel()
        for stream in tuple(undelivered):
            stream.cancel()

    def append(stream: Stream) -> Stream:
        # `cancel` must know the stream before a worker can wait in it.
        undelivered.append(stream)
        order.put(stream)
        return stream

    def feed() -> None:
        end = Stream(capacity, "stream")  # has only the `_End` of `items`
        with suppress(Cancelled):
            with _ended(end), closing_iterator(items) as iterator:
                for item in iterator:
                    workers.tasks.put((item, append(Stream(capacity, "stream"))))
            append(end)
            order.close()
            workers.tasks.close()

    with workers.threads(cancel) as threads:
        threads.start(f"{workers.name}-items", feed)
        workers.start(threads)
        for stream in workers.detector.iterate(order):
            for output in workers.detector.iterate(stream):
                if isinstance(output, _End):
                    if output.error is not None:
                        raise output.error
                    break
                yield output
            undelivered.popleft()


def _deliver_as_ready(
    workers: _Workers[Item, Out],
    items: Iterable[Item],
    capacity: int,
    on_cancel: Callable[[], None],
) -> Generator[Out, None, None]:
    stream = Stream(capacity, f"{workers.name}-outputs")

    def cancel() -> None:
        on_cancel()
        workers.tasks.cancel()
        stream.cancel()

    def submit(iterator: Iterator[Item], count: int) -> int:
        """Submit up to `count` further items; return how many there were."""
        submitted = 0
        for item in islice(iterator, count):
            workers.tasks.put((item, stream))
            submitted += 1
        return submitted

    with closing_iterator(items) as iterator, workers.threads(cancel) as threads:
        workers.start(threads)
        outputs = workers.detector.iterate(stream)
        # One item more than there are workers, so that no worker waits for the consumer.
        in_work = submit(iterator, workers.count + 1)
        while in_work:
            output = next(outputs)
            if not isinstance(output, _End):
                yield output
                continue
            if output.error is not None:
                raise output.error
            in_work += submit(iterator, 1) - 1
