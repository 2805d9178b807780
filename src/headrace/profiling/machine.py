"""Provenance of a record, from this process: machine, versions, commit."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import av
import psutil

from headrace.profiling.provenance import Gpu, Machine, Provenance, plain
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.processor_affinity import available_cores, can_bind, cores_text

_PACKAGES = ("headrace", "torch", "torchvision", "av", "numpy")
_CPU_INFO = Path("/proc/cpuinfo")
_GOVERNORS = Path("/sys/devices/system/cpu")
_NVIDIA = Path("/proc/driver/nvidia/version")
_CHECKOUT = Path(__file__).parents[3]


def provenance(
    configuration: Mapping[str, object], command: Sequence[str], clock: Clock = SYSTEM_CLOCK
) -> Provenance:
    """Return the provenance of a record of this process.

    Cost: see `describe_machine`; in a checkout of headrace also two calls of git.
    """
    return Provenance(
        headrace=metadata.version("headrace"),
        commit=commit(),
        created=datetime.fromtimestamp(clock.wall_seconds(), UTC),
        pid=os.getpid(),
        command=tuple(command),
        configuration=plain(configuration),
        machine=describe_machine(),
        versions=versions(),
    )


def process_seconds() -> float:
    """Return the age of this process; before the work of a program, this is its import time."""
    return max(0.0, SYSTEM_CLOCK.wall_seconds() - float(psutil.Process().create_time()))


@cache
def commit() -> str | None:
    """Return the commit of headrace's checkout; None if headrace is installed as a package.

    A trailing + means that files in `src` differ. Cached, because code is loaded once.
    """
    if not (_CHECKOUT / ".git").exists():
        return None
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return name + "+" if _git("status", "--porcelain", "src") else name
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    # A lock would make concurrent git commands in the checkout fail.
    command = ["git", "--no-optional-locks", *words]
    result = subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def describe_machine() -> Machine:
    """Return this machine as this process sees it; some milliseconds.

    GPUs are listed only if PyTorch is loaded, because loading it takes seconds. Listing them
    initializes CUDA in this process.
    """
    logical_cores = psutil.cpu_count(logical=True) or 1
    cores, memory = available_cores(), psutil.virtual_memory()
    return Machine(
        cpu=_read_cpu_name(),
        physical_cores=psutil.cpu_count(logical=False),
        logical_cores=logical_cores,
        usable_cores=len(cores),
        cores=cores_text(cores) if can_bind() else None,
        governor=_read_governors(cores),
        memory_bytes=memory.total,
        available_bytes=memory.available,
        system=f"{_system_name()}, {platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        gpus=_gpus(),
        ffmpeg=_libraries(),
    )


def decoder_version() -> str:
    """Return the versions of PyAV and of FFmpeg's libraries as one text."""
    libraries = ", ".join(f"{name} {version}" for name, version in _libraries().items())
    return f"av {av.__version__}, {libraries}"


def versions() -> dict[str, str]:
    """Return package → version of the installed numeric and video packages; imports none."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    installed = {"python": platform.python_version(), "ffmpeg": av.ffmpeg_version_info}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def _libraries() -> dict[str, str]:
    return {
        name: ".".join(str(part) for part in version)
        for name, version in sorted(av.library_versions.items())
    }


def _read_cpu_name() -> str:
    """Return the CPU model from /proc/cpuinfo, or else from the standard library."""
    if _CPU_INFO.is_file():
        for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _read_governors(cores: Iterable[int]) -> str | None:
    """Return the frequency governors of `cores`, joined by commas; None: unknown."""
    governors = set()
    for core in cores:
        with suppress(OSError):
            text = (_GOVERNORS / f"cpu{core}/cpufreq/scaling_governor").read_text(encoding="utf-8")
            governors.add(text.strip())
    return ", ".join(sorted(governors)) or None


def _read_driver() -> str | None:
    """Return the version of NVIDIA's kernel module; None: not loaded."""
    with suppress(OSError):
        match = re.search(r"\s(\d+\.[\d.]+)\s", _NVIDIA.read_text(encoding="utf-8"))
        return match[1] if match else None
    return None


def _gpus() -> tuple[Gpu, ...]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ()
    gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    driver = _read_driver()
    return tuple(Gpu(name=gpu.name, memory_bytes=gpu.total_memory, driver=driver) for gpu in gpus)
