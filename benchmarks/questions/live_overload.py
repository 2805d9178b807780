"""How old are the frames that are shown, where three times as many come as the model takes?"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from benchmarks.live.net import Net
from benchmarks.resources import Meter
from headrace.live.address import FileAddress
from headrace.live.overload import Overload
from headrace.live.paced import PacedFile
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.values import Answered
from headrace.runtime.clock import SYSTEM_CLOCK

_SAMPLE_SECONDS = 0.5


def answer(
    *, clip: str, seconds: float, model_seconds: float, max_staleness_seconds: float
) -> dict[str, Any]:
    """Run for so long; ages in milliseconds, memory of this process."""
    net = Net(threads=1, at_least=model_seconds)
    ages_ms: list[float] = []

    def show(answered: Answered) -> None:
        now_ns = SYSTEM_CLOCK.now_ns()
        ages_ms.extend((now_ns - v[-1].arrived_ns) / 1e6 for v in answered.gathered.views)

    plan = LivePlan(
        sources=[PacedFile(FileAddress(path=Path(clip)))],
        engine=net.engine(),
        overload=Overload.chosen("auto", is_live=True, max_staleness_seconds=max_staleness_seconds),
        max_seconds=seconds,
        show=show,
    )
    meter = Meter()
    with _memory() as series, LiveFlow(plan) as flow:
        for _ in flow:
            pass
    found = flow.conserved()
    return {
        "ages_ms": ages_ms,
        "arrived": found.arrived,
        "delivered": found.delivered,
        "in_flight": found.in_flight,
        "drops": {": ".join(where): count for where, count in found.dropped.items()},
        "rss": series,
        "meter": meter.read(),
    }


@contextmanager
def _memory() -> Iterator[list[tuple[float, int]]]:
    """Samples of (seconds, bytes) while the block runs."""
    series: list[tuple[float, int]] = []
    is_over = threading.Event()
    process, began = psutil.Process(), perf_counter()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_SECONDS):
            series.append((perf_counter() - began, int(process.memory_info().rss)))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield series
    finally:
        is_over.set()
        thread.join()
