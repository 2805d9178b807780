"""Something that is looked at now and then, while other work goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled
from headrace.runtime.threads import ThreadGroup
from headrace.runtime.waiter import Waiter


@contextmanager
def ticking(
    look: Callable[[], None], seconds: float, clock: Clock = SYSTEM_CLOCK
) -> Iterator[None]:
    """Call `look` every `seconds` from a thread, as long as the block runs; it must not raise."""
    waiter = Waiter(clock)

    def tick() -> None:
        with suppress(Cancelled):
            while True:
                waiter.pause(seconds)
                look()

    with ThreadGroup(waiter.wake) as threads:
        threads.start("ticker", tick)
        yield
