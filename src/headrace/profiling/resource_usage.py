"""What this process and those it started use of the machine."""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_PEAK: Final = "5"
"""What resets VmHWM: man 5 proc."""

_LEAST_SECONDS: Final = 0.5
"""Of processor time, below which the share of other programs says nothing."""


def cpu_seconds() -> float:
    """Processor time of this process, of all that run below it, and of those that have ended.

    A process that ends counts on once it was waited for. Some milliseconds.
    """
    total = 0.0
    process = psutil.Process()
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def machine_cpu_seconds() -> float:
    """Processor time that anything at all took on the cores this process may use."""
    cores = psutil.cpu_times(percpu=True)
    if hasattr(psutil.Process, "cpu_affinity"):
        cores = [cores[core] for core in psutil.Process().cpu_affinity() if core < len(cores)]
    unused = ("idle", "iowait", "guest", "guest_nice")  # what guests take is in `user` already
    return float(sum(sum(each) - sum(getattr(each, n, 0.0) for n in unused) for each in cores))


def memory_bytes() -> int:
    """Memory of this process and of all that run below it; what they share is counted once.

    Some 10 ms a process. Where the system does not tell what is shared, it is what each process
    has for itself.
    """
    total = 0
    process = psutil.Process()
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            found = each.memory_full_info()
            total += getattr(found, "pss", found.uss)
    return total


class Usage(Record):
    """What a run took of the machine."""

    cpu_seconds: NonNegativeFloat
    """Processor time of all its threads and processes, during the run."""
    peak_memory_bytes: NonNegativeInt | None = None
    """The most main memory its process ever had, imports and warm-up included; None where the
    system does not tell."""
    peak_gpu_bytes: NonNegativeInt | None = None
    """The most that tensors ever took on its GPU; None where none was used."""


def peak_memory_bytes() -> int | None:
    """The most main memory this process ever had; None where the system does not tell."""
    with suppress(OSError):
        # Not what getrusage tells: there a program inherits the peak of what started it.
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"))
        return int(found[1]) * 1024 if found else None
    return getattr(psutil.Process().memory_info(), "peak_wset", None)


def forget_peak() -> bool:
    """Count the peak of this process from now on; return whether the system can."""
    try:
        _CLEAR.write_text(_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_gpu_bytes() -> int | None:
    """The most that tensors of this process took on any one GPU; None where none was used."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return max(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())), default=None)


class ProcessorShare:
    """Watches what share of the processor time other programs take."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._own, self._all = cpu_seconds(), machine_cpu_seconds()

    def of_others(self) -> float | None:
        """Return their share of all that was used since, in [0, 1]; None where it was little."""
        own, whole = cpu_seconds() - self._own, machine_cpu_seconds() - self._all
        if whole < _LEAST_SECONDS:
            return None
        return min(1.0, max(0.0, 1 - own / whole))

    def used(self) -> Usage:
        """Return what this process and those below it took since, and their greatest memory."""
        return Usage(
            cpu_seconds=max(0.0, cpu_seconds() - self._own),
            peak_memory_bytes=peak_memory_bytes(),
            peak_gpu_bytes=peak_gpu_bytes(),
        )
