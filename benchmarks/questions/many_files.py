"""What does a loader of so many files cost: until it is open, for the first batch, and then?"""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from benchmarks.resources import Meter, peak_rss_bytes
from headrace import FrameLoader, IndexStore


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
    warming = Meter()
    warm_up_frames = next(batches)
    first_seconds = warming.wall_seconds
    open_files = process.num_fds()
    while warm_up_frames < loader.lookahead and warming.wall_seconds < warm_up_seconds:
        warm_up_frames += next(batches)
        open_files = max(open_files, process.num_fds())
    frames, before, meter = 0, loader.statistics, Meter()
    while meter.wall_seconds < seconds:
        frames += next(batches)
        open_files = max(open_files, process.num_fds())
    times, after = meter.read(), loader.statistics
    return {
        **times,
        "first_seconds": first_seconds,
        "lookahead": loader.lookahead,
        "warm_up_frames": warm_up_frames,
        "frames": frames,
        "decoded": after.frames_decoded - before.frames_decoded,
        "opens": after.opens - before.opens,
        "open_files": open_files,
    }


def _batches(loader: FrameLoader) -> Iterator[int]:
    while True:
        for batch in loader:
            yield len(batch)
