"""CPU affinity: the processor cores that this process may use."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil

from headrace.errors import BackendError, ConfigError


def available_cores() -> frozenset[int]:
    """Return the cores that the calling thread may run on now.

    Returns all cores of the machine on a system without core binding, such as macOS.
    """
    if not can_bind():
        return frozenset(range(os.cpu_count() or 1))
    return frozenset(os.sched_getaffinity(0))


def can_bind() -> bool:
    """Return whether this system can bind a process to cores."""
    return hasattr(os, "sched_setaffinity") and hasattr(os, "sched_getaffinity")


def parse_cores(text: str) -> frozenset[int]:
    """Return the cores of a text: "0-3,6" is {0, 1, 2, 3, 6}, "all" is `available_cores()`.

    Raises:
        ConfigError: the text is not a list of cores, or a range is reversed.
    """
    if text.strip() == "all":
        return available_cores()
    cores: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip(), re.ASCII)
        if match is None:
            raise ConfigError(f'cores must read like "0-3,6" or "all", got {text!r}')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ConfigError(f"a range of cores must ascend, got {part.strip()!r} in {text!r}")
        cores.update(range(first, last + 1))
    return frozenset(cores)


def check_cores(text: str) -> None:
    """Check that this process may use the cores of a text.

    Raises:
        ConfigError, BackendError: as `parse_cores` and `bind_cores`.
    """
    _check_available(parse_cores(text))


def cores_text(cores: Iterable[int]) -> str:
    """Return cores as text for `parse_cores`: {0, 1, 2, 6} is "0-2,6"."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1][1:] = [core]
        else:
            runs.append([core])
    return ",".join("-".join(map(str, run)) for run in runs)


def bind_cores(cores: frozenset[int]) -> None:
    """Bind this process to `cores`: all its threads, and threads it starts later.

    A later call can only choose among these cores. Libraries do not adjust their number of threads:
    set it as well, or the threads share the cores.

    Raises:
        ConfigError: `cores` is empty, or not available to the calling thread.
        BackendError: this system cannot bind a process to cores.
    """
    _check_available(cores)
    _set_affinity(cores)


def _check_available(cores: frozenset[int]) -> None:
    if not can_bind():
        raise BackendError(
            f"cannot bind to cores {cores_text(cores)}: this system has no core binding; leave "
            "cores out, or run on Linux"
        )
    available = available_cores()
    if not cores or not cores <= available:
        raise ConfigError(
            f"cores must be among {cores_text(available)}, which this process may use, got "
            f"{cores_text(cores) or 'none'}"
        )


@contextmanager
def bound_to_cores(cores: frozenset[int] | None) -> Iterator[None]:
    """Bind this process to `cores` inside the block; None changes nothing.

    Raises:
        ConfigError, BackendError: as `bind_cores`.
    """
    if cores is None:
        yield
        return
    before = available_cores()
    bind_cores(cores)
    try:
        yield
    finally:
        _set_affinity(before)


def _set_affinity(cores: frozenset[int]) -> None:
    # A new thread inherits the cores of its starter, but running threads (a library's pool) keep
    # theirs unless each is bound.
    for thread in psutil.Process().threads():
        with suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(thread.id, cores)
