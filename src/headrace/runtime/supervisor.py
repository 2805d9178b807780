"""Child processes that are watched over: one that fails ends no other, and none is left."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from selectors import DefaultSelector
from typing import Final

from headrace.errors import ConfigError
from headrace.runtime.child_process import ChildProcess
from headrace.runtime.child_spec import Child, CompletedChild, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import held_interrupts

_LOOK_SECONDS: Final = 0.05
"""After which a child that ended without closing its pipes, or whose time is over, is noticed."""


def run_children(
    children: Sequence[Child],
    *,
    at_once: int | None = None,
    on_message: Callable[[str, Json], None] = lambda name, message: None,
    on_end: Callable[[CompletedChild], None] = lambda ending: None,
    on_look: Callable[[], None] = lambda: None,
    on_interrupt: Callable[[], None] | None = None,
    grace_seconds: float = 5.0,
    clock: Clock = SYSTEM_CLOCK,
) -> list[CompletedChild]:
    """Run programs and functions as child processes until all have ended; return how each did.

    When this ends in another way (Ctrl-C without `on_interrupt`, an exception of a callback), all
    children are ended first, with the children of their own.

    Args:
        children: What to run. Their names tell them apart.
        at_once: How many run at a time, begun in their order; None: all.
        on_message: Called here with a child's name and what its function sends, when it comes.
        on_end: Called here when a child has ended, so that one that died can be named while the
            others go on.
        on_look: Called here some 20 times a second, as long as one runs.
        on_interrupt: Called here at Ctrl-C; then all are asked to end, have `grace_seconds` for it,
            and how they did is returned. A second Ctrl-C ends them at once and is raised.
        grace_seconds: Between the request to end (SIGTERM) and the end (SIGKILL) of a child whose
            time is over, or that was interrupted.
        clock: Tells whose time is over.

    Returns:
        One ending for each child, in their order; failures and time-outs are values, too.

    Raises:
        ConfigError: `at_once` is below 1, or two children have one name.
        TypeError: the argument of a function is not JSON.
    """
    names = [child.name for child in children]
    if len(set(names)) < len(names):
        raise ConfigError(f"children need different names, got {', '.join(names)}")
    if at_once is not None and at_once < 1:
        raise ConfigError(f"at_once must be >= 1, got {at_once}")
    with _Children(on_message, on_end, on_look, grace_seconds, clock) as family:
        try:
            family.run(deque(children), at_once or len(children))
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            on_interrupt()
            family.stop(names)
        return [family.endings[name] for name in names]


class _Children:
    """Those that run; leaving the block ends them."""

    def __init__(
        self,
        on_message: Callable[[str, Json], None],
        on_end: Callable[[CompletedChild], None],
        on_look: Callable[[], None],
        grace_seconds: float,
        clock: Clock,
    ) -> None:
        self.endings: dict[str, CompletedChild] = {}
        self._running: dict[str, ChildProcess] = {}
        self._on_message = on_message
        self._on_end = on_end
        self._on_look = on_look
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._selector = DefaultSelector()

    def run(self, waiting: deque[Child], at_once: int) -> None:
        while waiting or self._running:
            while waiting and len(self._running) < at_once:
                self._start(waiting.popleft())
            for key, _ in self._selector.select(_LOOK_SECONDS):
                key.data.read(key.fd)
            self._on_look()
            for name, process in tuple(self._running.items()):
                ending = process.look()
                if ending is not None:
                    del self._running[name]
                    self._ended(ending)

    def stop(self, names: Sequence[str]) -> None:
        """Ask all that run to end, and wait until they did; none of the others is started."""
        for process in self._running.values():
            process.stop()
        self.run(deque(), 0)
        for name in names:
            if name not in self.endings:
                self._ended(_unstarted(name, "it was not started"))

    def _start(self, child: Child) -> None:
        try:
            with held_interrupts():  # whatever runs is known here, and ended with the others
                self._running[child.name] = ChildProcess(
                    child, self._selector, self._on_message, self._grace_seconds, self._clock
                )
        except OSError as error:
            self._ended(_unstarted(child.name, f"it cannot be started: {error.strerror or error}"))

    def _ended(self, ending: CompletedChild) -> None:
        self.endings[ending.name] = ending
        self._on_end(ending)

    def __enter__(self) -> "_Children":
        return self

    def __exit__(self, *_: object) -> None:
        with self._selector, ExitStack() as stack:
            with held_interrupts():
                for process in self._running.values():
                    stack.callback(process.close)
            for process in self._running.values():
                process.terminate()


def _unstarted(name: str, why: str) -> CompletedChild:
    return CompletedChild(
        name=name, exit_code=None, has_timed_out=False, seconds=0.0, tail="", error=why
    )
