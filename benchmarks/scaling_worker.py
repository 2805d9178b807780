"""A loader of many files in its own process: a request on stdin, one line of JSON as the answer.

{"paths": [...], "store": "/tmp/index", "size": [256, 256], "batch_size": 128, "workers": 2,
 "memory_budget": "1GiB", "warm_up_seconds": 60, "seconds": 20}

Without `seconds` the loader is opened, and nothing is decoded.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from benchmarks.worker import keep_to_cores, machine_seconds, peak_rss_bytes
from headrace import FrameLoader
from headrace.decode.index_store import IndexStore


def main() -> None:
    """Read what is asked, answer, end."""
    asked = json.load(sys.stdin)
    keep_to_cores(asked["workers"])
    print(json.dumps(answer(**asked)), flush=True)


def answer(
    *,
    paths: list[str],
    store: str,
    size: tuple[int, int],
    batch_size: int,
    workers: int,
    memory_budget: str,
    warm_up_seconds: float,
    seconds: float | None,
) -> dict[str, Any]:
    """Open a loader, and time its first batch and those after the warm-up, if `seconds` are given.

    The warm-up ends when as many frames have come as the loader looks ahead, or with its time.
    """
    process = psutil.Process()
    rss_before, files_before = process.memory_info().rss, process.num_fds()
    began = perf_counter()
    with FrameLoader(
        paths,
        batch_size=batch_size,
        size=(size[0], size[1]),
        memory_budget=memory_budget,
        workers=workers,
        store=IndexStore(Path(store)),
    ) as loader:
        found: dict[str, Any] = {"open_seconds": perf_counter() - began}
        if seconds is not None:
            found |= _time(loader, warm_up_seconds, seconds)
            found["open_files"] -= files_before
            found["memory_bytes"] = peak_rss_bytes() - rss_before
    return found


def _time(loader: FrameLoader, warm_up_seconds: float, seconds: float) -> dict[str, Any]:
    process, batches = psutil.Process(), _batches(loader)
    began = perf_counter()
    warm_frames = next(batches)
    first_batch_seconds = perf_counter() - began
    open_files = process.num_fds()
    while warm_frames < loader.lookahead and perf_counter() - began < warm_up_seconds:
        warm_frames += next(batches)
        open_files = max(open_files, process.num_fds())
    before, cpu, others = loader.statistics, _cpu_seconds(), machine_seconds()
    frames, began = 0, perf_counter()
    while (wall := perf_counter() - began) < seconds:
        frames += next(batches)
        open_files = max(open_files, process.num_fds())
    cpu = _cpu_seconds() - cpu
    after = loader.statistics
    return {
        "first_batch_seconds": first_batch_seconds,
        "lookahead": loader.lookahead,
        "warm_up_frames": warm_frames,
        "frames": frames,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "others_cpu_seconds": max(0.0, machine_seconds() - others - cpu),
        "decoded": after.frames_decoded - before.frames_decoded,
        "opens": after.opens - before.opens,
        "open_files": open_files,
    }


def _batches(loader: FrameLoader) -> Iterator[int]:
    while True:
        for batch in loader:
            yield len(batch)


def _cpu_seconds() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
