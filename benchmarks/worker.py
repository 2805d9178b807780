"""One library in its own process: reads a request from stdin, answers with one line of JSON.

{"library": "decord", "paths": [...], "size": [256, 256], "workers": 2, "thumbnails": null}
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from time import perf_counter
from typing import cast

import numpy as np
import psutil

from benchmarks.equality import thumbnails
from benchmarks.libs.adapter import Adapter

_STATUS = Path("/proc/self/status")
_MAPS = Path("/proc/self/maps")


def main() -> None:
    """Time the library, or keep its thumbnails where the request names a file for them."""
    request = json.load(sys.stdin)
    paths = [Path(path) for path in request["paths"]]
    height, width = request["size"]
    workers = request["workers"]
    keep_to_cores(workers)
    adapter = cast(Adapter, import_module(f"benchmarks.libs.{request['library']}"))
    if request["thumbnails"]:
        chunks = adapter.every_frame(paths, (height, width), workers)
        np.savez(request["thumbnails"], *thumbnails(chunks, len(paths)))
        answer: dict[str, object] = {"versions": versions(adapter.PACKAGES)}
    else:
        answer = _time(adapter, paths, (height, width), workers)
    print(json.dumps(answer))


def _time(
    adapter: Adapter, paths: list[Path], size: tuple[int, int], workers: int
) -> dict[str, object]:
    for _ in adapter.every_frame(paths[:workers], size, workers):
        pass
    first_seconds: float | None = None
    frames = 0
    cpu_before, others_before, began = _cpu_seconds(), machine_seconds(), perf_counter()
    chunks = adapter.every_frame(paths, size, workers)
    for chunk in chunks:
        frames += len(chunk.frames)
        first_seconds = first_seconds or perf_counter() - began
    wall_seconds = perf_counter() - began
    cpu_seconds = _cpu_seconds() - cpu_before
    return {
        "wall_seconds": wall_seconds,
        "first_seconds": first_seconds,
        "cpu_seconds": cpu_seconds,
        "others_cpu_seconds": max(0.0, machine_seconds() - others_before - cpu_seconds),
        "frames": frames,
        "decoded_frames": getattr(chunks, "decoded_frames", None),
        "peak_rss_bytes": peak_rss_bytes(),
    }


def keep_to_cores(count: int) -> None:
    """Also binds what the library starts by itself."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _cpu_seconds() -> float:
    """CPU time of this process and of the children it has waited for."""
    return sum(os.times()[:4])


def machine_seconds() -> float:
    """CPU time of all processes of the machine."""
    times = psutil.cpu_times()
    idle = sum(getattr(times, name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice"))
    return float(sum(times) - idle)


def peak_rss_bytes() -> int:
    """From the status of this process: `ru_maxrss` would begin with the parent's."""
    if _STATUS.is_file():
        found = re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return int(psutil.Process().memory_info().rss)


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Of the packages, and of the FFmpeg that is loaded."""
    found = {name: metadata.version(name) for name in packages}
    if _MAPS.is_file():
        loaded = set(re.findall(r"libavcodec[-\w]*\.so\.([\d.]+)", _MAPS.read_text()))
        found["libavcodec"] = ", ".join(sorted(loaded))
    return found


if __name__ == "__main__":
    main()
