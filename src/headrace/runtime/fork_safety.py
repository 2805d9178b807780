"""Fork safety: whether CUDA can start in a forked process, and a lock that survives forks.

CUDA does not survive a fork: in a process forked after CUDA was started, it fails (`cuInit` returns
CUDA_ERROR_NOT_INITIALIZED; NVIDIA's guidelines for CUDA C++, rule 1.6, call it undefined). A
process forked before can start it. PyTorch detects CUDA that it started itself ("Cannot
re-initialize CUDA in forked subprocess"), but not CUDA of other libraries, nor in all of its paths
(pytorch/pytorch#190708). So the driver's state is read before each fork.
"""

import ctypes
import os
import sys
import threading
from typing import Final

from headrace.errors import BackendError

_NOT_INITIALIZED: Final = 3
"""CUDA_ERROR_NOT_INITIALIZED: the driver's error before `cuInit`, and after a fork."""


class _Forks:
    """State of CUDA when this process was forked."""

    def __init__(self) -> None:
        self._has_cuda = False
        self._had_cuda = False

    def before(self) -> None:
        """Before a fork: record whether CUDA is in use here or was in a parent."""
        self._has_cuda = self.had_cuda() or _torch_has_cuda() or _driver_has_cuda()

    def in_child(self) -> None:
        """After a fork, in the child: adopt the parent's record."""
        self._had_cuda = self._has_cuda

    def had_cuda(self) -> bool:
        """Return whether this process was forked from one that had started CUDA."""
        return self._had_cuda or _torch_is_in_bad_fork()


_FORKS: Final = _Forks()
if hasattr(os, "register_at_fork"):  # missing on Windows, which does not fork
    os.register_at_fork(before=_FORKS.before, after_in_child=_FORKS.in_child)


def check_cuda_after_fork(request: str) -> None:
    """Check that CUDA can start after a fork; does not start it. Cost: some µs.

    Args:
        request: What needs CUDA: the start of the message.

    Raises:
        BackendError: this process was forked from one in which CUDA had been started.
    """
    if _FORKS.had_cuda():
        raise BackendError(
            f"{request} in a process that was forked from one that uses CUDA, where CUDA cannot "
            "start; spawn workers: DataLoader(..., multiprocessing_context='spawn'), or use a "
            "loader of headrace, whose workers are threads"
        )


def _torch_has_cuda() -> bool:
    return _call_torch_cuda("is_initialized")


def _torch_is_in_bad_fork() -> bool:
    return _call_torch_cuda("_is_in_bad_fork")


def _call_torch_cuda(name: str) -> bool:
    """Return the result of a function of `torch.cuda`; False if torch is not loaded."""
    function = getattr(getattr(sys.modules.get("torch"), "cuda", None), name, None)
    return bool(function is not None and function())


def _driver_has_cuda() -> bool:
    """Return whether any library has started NVIDIA's driver; loads nothing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
        return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != _NOT_INITIALIZED)
    except (AttributeError, OSError):
        return False


class ForkSafeLock:
    """Re-entrant lock: `with lock: ...`.

    It is free in a forked process, even if the parent held it, and after unpickling.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def __enter__(self) -> "ForkSafeLock":
        if self._pid != os.getpid():
            self._reset()
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __setstate__(self, state: dict[str, object]) -> None:
        self._reset()
