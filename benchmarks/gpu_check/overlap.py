"""Do copies to the GPU overlap its work?

python -m benchmarks.gpu_check.overlap FOLDER --out trace.json.gz --gpu 0

A loop reads a FrameLoader with `device="cuda", pin_memory=True`. Its work on a batch takes the GPU
longer than the loader takes to load one, so the GPU is the bottleneck and each copy can overlap
kernels. PyTorch's profiler traces the loop; the trace shows the time of the copies, and how much of
it overlaps kernels. Without --gpu, the loop runs on the CPU without copies, as a rehearsal.
"""

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.command_line import call
from benchmarks.gpu_check.step import print_reading
from headrace import FrameLoader, find_videos

_TIMES_AS_LONG: Final = 3
"""Time of the work on a batch ÷ time to load a batch."""
_LEAST: Final = 0.5
"""Required share of copy time that overlaps kernels."""

Span = tuple[float, float]
"""Start and end, in microseconds."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Overlap of copies to a GPU with kernels, from a trace."""

    copies: int
    copied_us: float
    """Total time of the copies."""
    beside_us: float
    """Part of it in which a kernel ran."""

    @property
    def share(self) -> float:
        """Share of copy time that overlaps kernels; 0 without copies."""
        return self.beside_us / self.copied_us if self.copied_us else 0.0

    def __str__(self) -> str:
        """Return a short description."""
        if not self.copies:
            return "no copies to a GPU"
        took = f"{self.copies} copies to the GPU took {self.copied_us / 1e3:.2f} ms"
        return f"{took}, {self.share:.0%} of it during kernels"


def overlap_in(events: Iterable[Mapping[str, Any]]) -> Overlap:
    """Return the overlap in the events of PyTorch's profiler, in Chrome trace format."""
    spans: dict[str, list[Span]] = {"gpu_memcpy": [], "kernel": []}
    for event in events:
        kind, begin = event.get("cat"), float(event.get("ts", 0))
        if kind == "kernel" or (kind == "gpu_memcpy" and "HtoD" in event["name"]):
            spans[kind].append((begin, begin + float(event["dur"])))
    copies, kernels = spans.values()
    copied_us = sum(end - begin for begin, end in copies)
    return Overlap(copies=len(copies), copied_us=copied_us, beside_us=_beside(copies, kernels))


def overlap_in_file(path: Path) -> Overlap:
    """Return the overlap in a gzipped trace; raises OSError or ValueError for an invalid file."""
    with gzip.open(path) as file:
        return overlap_in(json.load(file)["traceEvents"])


def _beside(copies: Sequence[Span], kernels: Sequence[Span]) -> float:
    """Return the copy time during kernels; kernels may overlap each other."""
    if not copies or not kernels:
        return 0.0
    begins, ends = np.array(sorted(kernels)).T
    ends = np.maximum.accumulate(ends)
    is_apart = begins[1:] > ends[:-1]
    joined = begins[np.append(True, is_apart)], ends[np.append(is_apart, True)]
    edges = np.stack(joined, axis=1).ravel()
    busy = np.diff(edges, prepend=edges[0])
    busy[::2] = 0.0  # idle between kernels
    return float(np.diff(np.interp(copies, edges, np.cumsum(busy))).sum())


def trace(sources: Sequence[str], gpu: int | None, batches: int, path: Path) -> Overlap:
    """Run the loop and write its trace; return the overlap."""
    options = {} if gpu is None else {"device": f"cuda:{gpu}", "pin_memory": True}
    activities = [ProfilerActivity.CPU, *([] if gpu is None else [ProfilerActivity.CUDA])]
    with FrameLoader(find_videos(sources), batch_size=8, size=(224, 224), **options) as loader:  # type: ignore[arg-type]
        epoch = iter(loader)
        next(epoch)
        started = time.monotonic()
        count = len([*islice(epoch, batches)])
        work = _work(gpu, _TIMES_AS_LONG * (time.monotonic() - started) / max(1, count))
        with profile(activities=activities) as profiler:
            for batch in islice(loader, batches):
                batch.frames.float().mean()
                work()
            if gpu is not None:
                torch.cuda.synchronize(gpu)
    path.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(path))
    return overlap_in_file(path)


def _work(gpu: int | None, seconds: float) -> Callable[[], None]:
    """Return a function that launches `seconds` of work on the device and does not wait."""
    device = "cpu" if gpu is None else f"cuda:{gpu}"
    side = 64 if gpu is None else 2048
    matrix = torch.rand(side, side, device=device)

    def launch(times: int) -> None:
        for _ in range(times):
            torch.mm(matrix, matrix)

    started = 0.0
    for times in (10, 50):
        started = time.monotonic()
        launch(times)
        if gpu is not None:
            torch.cuda.synchronize(gpu)
    return partial(launch, max(1, round(50 * seconds / (time.monotonic() - started))))


def main(sources: tuple[str, ...], *, out: Path, gpu: int | None = None, batches: int = 20) -> None:
    """Print the overlap as JSON; exit with status 1 if it is too small.

    Args:
        sources: videos, or folders of videos
        out: path of the trace, NAME.json.gz
        gpu: number of the GPU; without it, run on the CPU
        batches: batches of the loop
    """
    overlap = trace(sources, gpu, batches, out)
    if gpu is not None and overlap.share < _LEAST:
        sys.exit(f"{overlap}; at least {_LEAST:.0%} is required")
    print_reading(str(overlap))


if __name__ == "__main__":
    call(main, __doc__)
