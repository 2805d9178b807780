"""Many streams produced at once and delivered as they come, each in its own order."""

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from headrace.runtime.queue import BoundedQueue, Cancelled
from headrace.runtime.threads import ThreadGroup, iterating
from headrace.sizes import check_integers

Item = TypeVar("Item")
Out = TypeVar("Out")

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
