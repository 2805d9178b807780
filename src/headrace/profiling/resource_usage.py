"""CPU time and memory of this process and its children."""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"
"""Value of clear_refs that resets VmHWM: man 5 proc."""
_MIN_SECONDS: Final = 0.5
"""Min CPU seconds of all programs for a share of other programs."""


def cpu_seconds() -> float:
    """Return the CPU time of this process and its descendants; a few milliseconds.

    An ended process counts once its parent has waited for it.
    """
    total = 0.0
    process = psutil.Process()
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = member.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def machine_cpu_seconds() -> float:
    """Return the CPU time of all programs on the cores that this process may use."""
    cores = psutil.cpu_times(percpu=True)
    if hasattr(psutil.Process, "cpu_affinity"):
        cores = [cores[core] for core in psutil.Process().cpu_affinity() if core < len(cores)]
    unused = ("idle", "iowait", "guest", "guest_nice")  # `user` includes the guests
    return float(sum(sum(core) - sum(getattr(core, n, 0.0) for n in unused) for core in cores))


def memory_bytes() -> int:
    """Return the memory of this process and its descendants; about 10 ms per process.

    Shared memory counts once, or not at all on systems that do not report it.
    """
    total = 0
    process = psutil.Process()
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            memory = member.memory_full_info()
            total += getattr(memory, "pss", memory.uss)
    return total


def peak_memory_bytes() -> int | None:
    """Return the peak main memory of this process; None: unknown."""
    with suppress(OSError):
        # getrusage includes the peak of the parent.
        match = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"))
        return int(match[1]) * 1024 if match else None
    return getattr(psutil.Process().memory_info(), "peak_wset", None)


def forget_peak() -> bool:
    """Reset the peak memory of this process; return whether the system supports it."""
    try:
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_gpu_bytes() -> int | None:
    """Return the peak memory of this process's tensors on a GPU, the largest of all GPUs.

    None without a GPU.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return max(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())), default=None)


class ProcessorShare:
    """CPU share of other programs since the creation of the object."""

    def __init__(self) -> None:
        """Start to measure."""
        self._own, self._all = cpu_seconds(), machine_cpu_seconds()

    def of_others(self) -> float | None:
        """Return the share of other programs, in [0, 1]; None: too little CPU time."""
        own, total = cpu_seconds() - self._own, machine_cpu_seconds() - self._all
        if total < _MIN_SECONDS:
            return None
        return min(1.0, max(0.0, 1 - own / total))

    def own_seconds(self) -> float:
        """Return the CPU time of this process and its descendants."""
        return max(0.0, cpu_seconds() - self._own)
