"""Child processes that run a function, forked from the test process.

A new interpreter imports PyTorch, which takes seconds of CPU time; a fork has it already. Inputs
are the same: arguments as JSON, pipes, the environment. If the test process has a SQLite file
open, the child is a new interpreter. Not for children that start DataLoader workers: forked from
a process that has run thousands of tests, these workers end at once.
"""

import faulthandler
import gc
import importlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import psutil
import torch

from forked import forked
from headrace.runtime import child_process


class ForkedProcess:
    """The part of `subprocess.Popen` that `headrace.runtime.child_process` uses."""

    def __init__(self, arguments: Sequence[str], pass_fds: Sequence[int], has_input: bool) -> None:
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        child_in = os.open(os.devnull, os.O_RDONLY)
        if has_input:
            os.close(child_in)
            child_in, parent_in = os.pipe()
            self.stdin = os.fdopen(parent_in, "wb")
        parent_out, child_out = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(parent_out, "rb")
        self.pid = forked(lambda: _become_child(arguments, child_in, child_out, pass_fds))
        os.setpgid(self.pid, self.pid)
        os.close(child_in)
        os.close(child_out)

    def poll(self) -> int | None:
        """Return the exit code, or None while the child runs."""
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end of the child; raise after `timeout` seconds."""
        if timeout is not None and self.returncode is None:
            ended = os.pidfd_open(self.pid)
            try:
                if not select.select([ended], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("a forked child", timeout)
            finally:
                os.close(ended)
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _popen(arguments: Sequence[str], **given: Any) -> Any:
    is_function = child_process._START in arguments
    if not is_function or _has_sqlite_open():
        return subprocess.Popen(arguments, **given)
    return ForkedProcess(arguments, given["pass_fds"], given["stdin"] == subprocess.PIPE)


def _has_sqlite_open() -> bool:
    """Return whether a SQLite file is open; a fork would treat its locks as its own."""
    return any(file.path.endswith(".sqlite") for file in psutil.Process().open_files())


FORKING = SimpleNamespace(**{**vars(subprocess), "Popen": _popen})
"""The module `subprocess` with a `Popen` that forks."""


def _become_child(
    arguments: Sequence[str], child_in: int, child_out: int, pass_fds: Sequence[int]
) -> None:
    """Run the function as in a new interpreter."""
    gc.freeze()  # objects of the tests must not be finalized here
    os.setpgid(0, 0)
    for number, place in ((child_in, 0), (child_out, 1), (child_out, 2)):
        os.dup2(number, place)
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number not in pass_fds:
            with suppress(OSError):
                os.close(number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    faulthandler.disable()
    warnings.resetwarnings()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for seed in (random.seed, np.random.seed, torch.seed):
        seed()
    sys.path[:] = json.loads(arguments[3])
    importlib.invalidate_caches()
    child_process.run_in_child(arguments[4:])
