"""Supervisor of child processes: the failure of one ends no other, and none outlives the call."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from selectors import DefaultSelector
from typing import Final

from headrace.errors import ConfigError
from headrace.runtime.child_process import ChildProcess
from headrace.runtime.child_spec import Child, CompletedChild, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import deferred_sigint

_POLL_SECONDS: Final = 0.05
"""Seconds between two looks at children that send nothing: for exits and time limits."""


def run_children(
    children: Sequence[Child],
    *,
    max_running: int | None = None,
    on_message: Callable[[str, Json], None] = lambda name, message: None,
    on_end: Callable[[CompletedChild], None] = lambda ending: None,
    on_look: Callable[[], None] = lambda: None,
    on_interrupt: Callable[[], None] | None = None,
    grace_seconds: float = 5.0,
    clock: Clock = SYSTEM_CLOCK,
) -> list[CompletedChild]:
    """Run programs and functions as child processes until all have ended; return how each did.

    Where this ends in another way (Ctrl-C without `on_interrupt`, an exception of a callback), all
    children and their own children are ended first.

    Args:
        children: What to run; each has a different name.
        max_running: Children that run at a time, started in order; None: all.
        on_message: Called here with a child's name and each message of its function.
        on_end: Called here when a child has ended, while the others go on.
        on_look: Called here some 20 times a second while a child runs.
        on_interrupt: Called here at Ctrl-C; then all children get SIGTERM and `grace_seconds`, and
            how they ended is returned. A second Ctrl-C ends them at once and is raised.
        grace_seconds: Time between SIGTERM and SIGKILL of a child that was interrupted, or whose
            time is over.
        clock: Measures the time limits.

    Returns:
        One ending for each child, in their order; failures and time-outs are values, too.

    Raises:
        BackendError: this system is Windows.
        ConfigError: `max_running` is below 1, or two children have one name.
        TypeError: the argument of a function is not JSON.
    """
    names = [child.name for child in children]
    if len(set(names)) < len(names):
        raise ConfigError(f"children need different names, got {', '.join(names)}")
    if max_running is not None and max_running < 1:
        raise ConfigError(f"max_running must be >= 1, got {max_running}")
    with _Supervisor(on_message, on_end, on_look, grace_seconds, clock) as supervisor:
        try:
            supervisor.run(deque(children), max_running or len(children))
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            on_interrupt()
            supervisor.stop(names)
        return [supervisor.endings[name] for name in names]


@dataclass(eq=False)
class _Supervisor:
    """The children that run; leaving the block ends them."""

    on_message: Callable[[str, Json], None]
    on_end: Callable[[CompletedChild], None]
    on_look: Callable[[], None]
    grace_seconds: float
    clock: Clock
    endings: dict[str, CompletedChild] = field(default_factory=dict)
    _running: dict[str, ChildProcess] = field(default_factory=dict)
    _selector: DefaultSelector = field(default_factory=DefaultSelector)

    def run(self, waiting: deque[Child], max_running: int) -> None:
        while waiting or self._running:
            while waiting and len(self._running) < max_running:
                self._start(waiting.popleft())
            for key, _ in self._selector.select(_POLL_SECONDS):
                key.data.read(key.fd)
            self.on_look()
            for name, process in tuple(self._running.items()):
                ending = process.poll()
                if ending is not None:
                    del self._running[name]
                    self._record(ending)

    def stop(self, names: Sequence[str]) -> None:
        """Stop all that run, and wait for their ends; start none of the others."""
        for process in self._running.values():
            process.stop()
        self.run(deque(), 0)
        for name in names:
            if name not in self.endings:
                self._record(_not_started(name, "it was not started"))

    def _start(self, child: Child) -> None:
        try:
            with deferred_sigint():  # a process that runs is known here, and ended with the others
                self._running[child.name] = ChildProcess(
                    child, self._selector, self.on_message, self.grace_seconds, self.clock
                )
        except OSError as error:
            reason = f"it cannot be started: {error.strerror or error}"
            self._record(_not_started(child.name, reason))

    def _record(self, ending: CompletedChild) -> None:
        self.endings[ending.name] = ending
        self.on_end(ending)

    def __enter__(self) -> "_Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        with self._selector, ExitStack() as stack:
            with deferred_sigint():
                for process in self._running.values():
                    stack.callback(process.close)
            for process in self._running.values():
                process.terminate()


def _not_started(name: str, reason: str) -> CompletedChild:
    return CompletedChild(
        name=name, exit_code=None, has_timed_out=False, seconds=0.0, tail="", error=reason
    )
