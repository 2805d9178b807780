"""Forked processes, and whether CUDA can still be started in this one.

CUDA is not carried over by a fork: in a process that was forked after CUDA was started, it fails
(`cuInit` returns CUDA_ERROR_NOT_INITIALIZED; NVIDIA's guidelines for CUDA C++, rule 1.6, call it
undefined). One that was forked before can start it. PyTorch knows of what it started itself
("Cannot re-initialize CUDA in forked subprocess"), but not of other libraries, nor of all its own
ways (pytorch/pytorch#190708); so the driver itself is asked, before each fork.
"""

import ctypes
import os
import sys
import threading
from types import TracebackType
from typing import Final

from headrace.errors import BackendError

_NOT_INITIALIZED: Final = 3
"""CUDA_ERROR_NOT_INITIALIZED: what the driver says before `cuInit`, and after a fork."""


class _Forks:
    """What was so when this process was forked, if it was."""

    def __init__(self) -> None:
        self._has_cuda = False
        self._was_had = False

    def before(self) -> None:
        """Note whether CUDA is in use, or was in the process that this one was forked from."""
        self._has_cuda = self.had_cuda() or _torch_has_cuda() or _driver_has_cuda()

    def in_child(self) -> None:
        """Note that what was noted is of the parent."""
        self._was_had = self._has_cuda

    def had_cuda(self) -> bool:
        """Return whether this process was forked from one that had started CUDA."""
        return self._was_had or _torch_knows_of_a_bad_fork()


_FORKS: Final = _Forks()
if hasattr(os, "register_at_fork"):  # there is none on Windows, which does not fork
    os.register_at_fork(before=_FORKS.before, after_in_child=_FORKS.in_child)


def check_cuda_after_fork(asked: str) -> None:
    """Do nothing if CUDA can be used as far as forks go. It is not started. Cost: some µs.

    Args:
        asked: What it is wanted for, to begin the message with.

    Raises:
        BackendError: this process was forked from one in which CUDA had been started.
    """
    if _FORKS.had_cuda():
        raise BackendError(
            f"{asked} in a process that was forked from one that uses CUDA, where CUDA cannot "
            "start; start workers anew: DataLoader(..., multiprocessing_context='spawn'), or use "
            "a loader of headrace, whose workers are threads"
        )


def _torch_has_cuda() -> bool:
    return _torch_says("is_initialized")


def _torch_knows_of_a_bad_fork() -> bool:
    return _torch_says("_is_in_bad_fork")


def _torch_says(name: str) -> bool:
    """Return what a question to `torch.cuda` comes to, if torch is loaded."""
    asked = getattr(getattr(sys.modules.get("torch"), "cuda", None), name, None)
    return bool(asked is not None and asked())


def _driver_has_cuda() -> bool:
    """Return whether NVIDIA's driver is loaded and was started, by whomever; loads nothing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
        return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALIZED)
    except (AttributeError, OSError):
        return False


class ForkSafeLock:
    """`with lock: ...` is done by one thread at a time, which may take it again inside.

    In a process that was forked while somebody held it, and in one that it is sent to, it is free.
    """

    def __init__(self) -> None:
        self._new()

    def _new(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def __enter__(self) -> "ForkSafeLock":
        if self._pid != os.getpid():
            self._new()
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __setstate__(self, state: dict[str, object]) -> None:
        self._new()
