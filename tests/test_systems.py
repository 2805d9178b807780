"""Windows and macOS, played: what they lack is taken out of a fork, which imports headrace anew.

Libraries stay those of Linux. What needs a system itself is not seen here: docs/reference/systems.md.
"""

import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import headrace
from forked import in_a_fork
from headrace.testing.synth import SynthClip, write_clip
from house_rules import house

WINDOWS_LACKS = {
    "modules": ("fcntl", "grp", "pwd", "resource", "termios"),
    os: (
        *("fork", "getpgid", "getpgrp", "getuid", "geteuid", "killpg", "register_at_fork", "setsid"),
        *("fchmod", "mkfifo", "pread", "preadv", "pwrite", "pwritev", "readv", "writev"),
        *("ctermid", "getloadavg", "nice", "tcgetpgrp", "uname", "wait3", "wait4"),
        *("O_ASYNC", "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK"),
        *(name for name in dir(os) if re.match("eventfd|memfd|pidfd|posix_|sched_|RTLD_", name)),
    ),
    signal: (
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGSTOP", "SIGUSR1"),
        *("alarm", "pthread_kill", "pthread_sigmask", "setitimer", "sigwait"),
    ),
    socket: ("AF_UNIX", "SO_REUSEPORT", "TCP_USER_TIMEOUT"),
}
MACOS_LACKS = {
    "modules": (),
    os: tuple(n for n in dir(os) if re.match("eventfd|memfd|pidfd|posix_f|sched_[gs]et", n)),
    import_module("fcntl"): ("F_SETSIG",),
    socket: ("TCP_USER_TIMEOUT",),
}
SYSTEMS: dict[str, dict[Any, tuple[str, ...]]] = {"win32": WINDOWS_LACKS, "darwin": MACOS_LACKS}
STARTS = {"__main__", "instrumentation.script", "testing.rtsp_server"}
"""Modules that run where they are imported."""


def import_all() -> None:
    """Import every module of headrace."""
    for module in house():
        if module.name.removeprefix("headrace.") not in STARTS:
            import_module(module.name)


def on(system: str, check: Callable[[], object]) -> bool:
    """Return whether `check` holds in a fork that lacks what a system lacks."""

    def run() -> bool:
        for name in [name for name in sys.modules if name.split(".")[0] == "headrace"]:
            del sys.modules[name]
        for owner, names in SYSTEMS[system].items():
            for name in names:
                if owner == "modules":
                    sys.modules[name] = None  # type: ignore[assignment]
                else:
                    delattr(owner, name)
        sys.platform = system
        check()
        return True

    return in_a_fork(run)


@pytest.fixture(scope="module", autouse=True)
def libraries():
    """Import what headrace imports, before anything is taken away."""
    import_all()


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(sys.modules["headrace.errors"].BackendError) as caught:
        yield
    for word in words:
        assert word in str(caught.value)


@pytest.fixture
def videos(tmp_path):
    return [write_clip(tmp_path / name, SynthClip(num_frames=12, size=(32, 48))) for name in "ab"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_module_can_be_imported(system):
    assert on(system, import_all)
