"""How fast do batches come that NVDEC decodes, beside those of the CPU?

python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0       random frames
python -m benchmarks.gpu_check.loading cameras INDEX --gpu 0       camera streams

The batches of both are proved equal, bit by bit; then they are timed in turns, the loader made anew
for each. Without --gpu the CPU stands in for NVDEC, as a rehearsal.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from statistics import median
from typing import Any, Final

import torch

from headrace import CameraLoader, FrameLoader, find_videos

_KINDS: Final = ("frames", "cameras")
_HEADS: Final = ("decoded by", "frames/s", "slowest", "fastest", "ms a frame")

Opener = Callable[[int | None], AbstractContextManager[Any]]
"""Number of the GPU -> the loader."""


def opener(kind: str, sources: list[str], size: tuple[int, int], batch_size: int) -> Opener:
    """Return what makes a loader of a kind."""
    if kind == "frames":
        videos = find_videos(sources)
        return lambda gpu: FrameLoader(videos, batch_size=batch_size, size=size, gpu=gpu)
    return lambda gpu: CameraLoader(sources[0], group_num=2, size=size, gpu=gpu)


def unequal(open_one: Opener, gpu: int | None, batches: int) -> int | None:
    """Return the number of the first batch that differs; None where all are the same."""
    with open_one(None) as there, open_one(gpu) as here:
        pairs = zip(_some(there, batches), _some(here, batches), strict=True)
        for number, (expected, found) in enumerate(pairs):
            if not torch.equal(expected.frames, found.frames):
                return number
    return None


def rate(open_one: Opener, gpu: int | None, batches: int) -> float:
    """Return frames per second of an epoch, or of so many batches, behind the first one."""
    frames, started = 0, 0.0
    with open_one(gpu) as loader:
        for batch in _some(loader, batches + 1):
            if started:
                # All dimensions but the picture's: H, W and C.
                frames += batch.frames.shape[:-3].numel()
            else:
                started = time.monotonic()
        return frames / (time.monotonic() - started)


def _some(loader: Any, batches: int) -> Iterator[Any]:
    for number, batch in enumerate(loader, start=1):
        yield batch
        if number == batches:
            return


def _row(name: str, rates: list[float]) -> tuple[str, ...]:
    middle = median(rates)
    return (
        name,
        *(f"{each:.1f}" for each in (middle, min(rates), max(rates))),
        f"{1e3 / middle:.3f}",
    )


def main() -> None:
    """Prove, time, print a line of JSON; exit status 1 where batches differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--gpu", type=int, help="its number; left out: the CPU stands in for it")
    parser.add_argument("--size", type=int, nargs=2, default=(256, 704), metavar=("H", "W"))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches", type=int, default=30, help="that are timed in a turn")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    open_one = opener(options.kind, options.sources, tuple(options.size), options.batch_size)
    differs = unequal(open_one, options.gpu, options.batches)
    if differs is not None:
        sys.exit(f"batch {differs} of NVDEC differs from the CPU's: nothing was timed")
    named = {"CPU": None, "NVDEC" if options.gpu is not None else "CPU again": options.gpu}
    rates: dict[str, list[float]] = {name: [] for name in named}
    for _ in range(options.repeats):
        for name, gpu in named.items():
            rates[name].append(rate(open_one, gpu, options.batches))
    cpu, other = (median(each) for each in rates.values())
    said = f"equal batches; {list(named)[1]} is {other / cpu:.2f} times as fast as the CPU"
    rows = [_row(name, each) for name, each in rates.items()]
    print(json.dumps({"said": said, "heads": _HEADS, "rows": rows}))


if __name__ == "__main__":
    main()
