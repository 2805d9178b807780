"""Which processor cores this process may use."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil

from headrace.errors import BackendError, ConfigError


def available_cores() -> frozenset[int]:
    """The cores that the calling thread may run on now.

    All of the machine on a system that cannot bind a process to cores, such as macOS.
    """
    if not can_bind():
        return frozenset(range(os.cpu_count() or 1))
    return frozenset(os.sched_getaffinity(0))


def can_bind() -> bool:
    """Whether this system can bind a process to cores."""
    return hasattr(os, "sched_setaffinity") and hasattr(os, "sched_getaffinity")


def parse_cores(text: str) -> frozenset[int]:
    """The cores that `text` names: "0-3,6" is {0, 1, 2, 3, 6}, "all" is `available_cores()`.

    Raises:
        ConfigError: `text` names no cores; a range runs backwards.
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
            raise ConfigError(f"a range of cores runs upwards, got {part.strip()!r} in {text!r}")
        cores.update(range(first, last + 1))
    return frozenset(cores)


def check_cores(text: str) -> None:
    """Raise ConfigError where `text` names no cores, or others than this process may use."""
    check_available(parse_cores(text))


def cores_text(cores: Iterable[int]) -> str:
    """Return what `parse_cores` reads: {0, 1, 2, 6} as "0-2,6"."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1][1:] = [core]
        else:
            runs.append([core])
    return ",".join("-".join(map(str, run)) for run in runs)


def bind(cores: frozenset[int]) -> None:
    """Lets this process run on `cores` only: all its threads, and those it starts later.

    A later call can take fewer cores, not others. It does not change how many threads a library
    starts: set that as well, or they share the cores.

    Raises:
        ConfigError: `cores` is empty, or the calling thread may not run on one of them.
        BackendError: This system cannot bind a process to cores.
    """
    check_available(cores)
    _spread(cores)


def check_available(cores: frozenset[int]) -> None:
    """Check that this process may run on `cores`.

    Raises:
        ConfigError, BackendError: as `bind`.
    """
    if not can_bind():
        raise BackendError(
            f"cores {_listed(cores)} were asked for, but this system cannot bind a process to "
            "cores; leave cores out (Linux can)"
        )
    available = available_cores()
    if not cores or not cores <= available:
        raise ConfigError(
            f"cores {_listed(cores) or 'none'} were asked for; this process may use "
            f"{_listed(available)}"
        )


@contextmanager
def bound(cores: frozenset[int] | None) -> Iterator[None]:
    """Lets this process run on `cores` only while the block lasts; None changes nothing.

    Raises:
        ConfigError, BackendError: as `bind`.
    """
    if cores is None:
        yield
        return
    before = available_cores()
    bind(cores)
    try:
        yield
    finally:
        _spread(before)


def _listed(cores: frozenset[int]) -> str:
    """{0, 1, 2, 6} is "0-2,6"."""
    ordered = sorted(cores)
    starts = [core for core in ordered if core - 1 not in cores]
    ends = [core for core in ordered if core + 1 not in cores]
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)


def _spread(cores: frozenset[int]) -> None:
    # A new thread takes over the cores of the one that starts it, but threads that run already
    # (a library's pool) keep theirs unless each is bound.
    for thread in psutil.Process().threads():
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(thread.id, cores)
