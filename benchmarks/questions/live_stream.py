"""When is which frame of a stream shown, and what is noticed meanwhile?"""

import os
from importlib import import_module
from time import perf_counter_ns
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.clip import grey_thumbnails, number_of
from benchmarks.live.net import Net
from benchmarks.live.ways import Stream, Way
from benchmarks.resources import Meter, versions

_PROVED = 8
"""Pictures that are kept to be held against the file."""


def answer(
    *,
    way: str,
    url: str,
    seconds: float,
    model_seconds: float = 0.0,
    max_staleness: str | None = None,
    pictures: str | None = None,
) -> dict[str, Any]:
    """Show the stream for so long after asking for it; moments are of `time.perf_counter_ns`."""
    os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
    module = cast(Way, import_module(f"benchmarks.live.ways.{way}"))
    net = Net(threads=1, at_least=model_seconds)
    shown: list[tuple[int, int]] = []
    heard: list[tuple[int, str]] = []
    kept: list[NDArray[np.uint8]] = []

    def show(picture: NDArray[np.uint8]) -> None:
        now_ns = perf_counter_ns()
        shown.append((now_ns, number_of(picture)))
        if len(kept) < _PROVED:
            kept.append(picture)

    meter, began_ns = Meter(), perf_counter_ns()
    told = module.run(
        Stream(
            url=url,
            net=net,
            until_ns=began_ns + round(seconds * 1e9),
            max_staleness=max_staleness,
            show=show,
            note=lambda word: heard.append((perf_counter_ns(), word)),
        )
    )
    if pictures and kept:
        numbers = np.array([number for _, number in shown[: len(kept)]])
        np.savez(pictures, numbers=numbers, pictures=grey_thumbnails(np.stack(kept)))
    return {
        "began_ns": began_ns,
        "shown": shown,
        "heard": heard,
        "told": told,
        "meter": meter.read(),
        "versions": versions(module.PACKAGES),
    }
