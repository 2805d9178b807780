"""Do the recorded times of a profiled loop agree with the times in `/proc`?

python -m benchmarks.bench_times      # a minute

Five loops are profiled, the last one beside two programs that compute. From the end of the first
step to the end of the last, the wall clock and the CPU time are also read with psutil, and the time
in which the thread waits for a core from its `schedstat`.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from threading import get_native_id
from time import perf_counter, sleep
from typing import Any, Final, NamedTuple

import psutil
import torch
from torch.utils.data import DataLoader

import headrace
from benchmarks import planted_work
from benchmarks.bench_planted import busy_machine
from benchmarks.kit import Benchmark
from benchmarks.markdown import machine, rendered
from benchmarks.record import Rows, Tried, origin
from headrace.profiling.session import Session


@dataclass(frozen=True)
class _Loop:
    """Loop; work is in milliseconds of CPU time."""

    fetch: float = 1.0
    """Work per batch."""
    step: float = 1.0
    """Work per step."""
    asleep: float = 0.0
    """Milliseconds of sleep per step."""
    matrices: int = 0
    """Matrix products per step, on all cores."""
    workers: int = 0
    is_busy: bool = False
    """Whether two other programs compute."""


LOOPS: Final = {
    "loading in the loop": _Loop(fetch=8),
    "loading in two workers": _Loop(fetch=8, step=2, workers=2),
    "a step that waits": _Loop(step=4, asleep=4),
    "a step on all cores": _Loop(matrices=4),
    "beside two busy programs": _Loop(step=8, is_busy=True),
}


class Reading(NamedTuple):
    """Times of a loop, in seconds."""

    wall: float
    cpu: float
    """CPU time of the process and its workers."""
    core_wait: float
    """Time in which the thread of the loop waits for a core."""


class TimesRow(Tried):
    """Times of one loop in seconds: fields of `Reading`."""

    name: str
    recorded: tuple[float, ...] = ()
    """Times in the profile."""
    read: tuple[float, ...] = ()
    """Times in `/proc`."""

    @property
    def errors(self) -> list[float]:
        """Recorded ÷ read times, minus 1; short times are left out."""
        pairs = zip(self.recorded, self.read, strict=True)
        return [ours / theirs - 1 for ours, theirs in pairs if theirs > _NOTABLE * self.read[0]]


_NOTABLE: Final = 0.05
"""Min share of the wall clock for a time to be compared."""


def measure(*, batches: int = 400) -> Iterator[Rows[TimesRow]]:
    """Profile each loop.

    Args:
        batches: batches per loop
    """
    result = Rows[TimesRow](provenance=origin(batches=batches))
    for name, loop in LOOPS.items():
        session, read = _run(loop, batches)
        row = TimesRow(name=name, recorded=_recorded(session), read=read)
        print(f"{name}: recorded {row.recorded}, read {row.read}", flush=True)
        result = result.plus(row)
        yield result


def _run(loop: _Loop, batches: int) -> tuple[Session, Reading]:
    """Return the session of a loop, and the read times over all steps but the first."""
    planted = planted_work.Loop(fetch=loop.fetch, batches=batches, batch_size=1)
    workers: Any = {"num_workers": loop.workers, "persistent_workers": loop.workers > 0}
    loader = DataLoader(planted_work.Samples(planted, Path()), batch_size=None, **workers)
    matrix, ends = torch.ones(512, 512), list[Reading]()
    with (
        busy_machine() if loop.is_busy else nullcontext(),
        headrace.profile_loader(loader, on_verdict=None) as profile,
    ):
        for index, _ in enumerate(profile):
            planted_work.work(loop.step)
            for _ in range(loop.matrices):
                matrix @ matrix
            if loop.asleep:
                sleep(loop.asleep / 1e3)
            if index in (0, len(profile) - 1):
                ends.append(read_now())
    return profile.session, Reading(*(end - start for start, end in zip(*ends, strict=True)))


def read_now() -> Reading:
    """Return the times of this process, its workers and this thread so far."""
    workers = [psutil.Process(worker.pid) for worker in active_children()]
    times = [process.cpu_times() for process in (psutil.Process(), *workers)]
    schedstat = Path(f"/proc/self/task/{get_native_id()}/schedstat").read_text().split()
    return Reading(
        wall=perf_counter(),
        cpu=sum(time.user + time.system for time in times),
        core_wait=int(schedstat[1]) / 1e9,
    )


def _recorded(session: Session) -> Reading:
    assert session.loader is not None
    steps, waits = session.steps, session.steps.core_wait_ms
    cpu_ms = (session.loader.loop_cpu_ms or 0.0) + (session.loader.batch_cpu_ms or 0.0)
    count = len(steps) - 1
    return Reading(
        wall=sum(steps.total_ms[1:]) / 1e3,
        cpu=cpu_ms * count / 1e3,
        core_wait=sum(sum(waits[name][1:]) for name in ("wait", "step")) / 1e3,
    )


def text(result: Rows[TimesRow]) -> str:
    """Return a line per loop."""

    def cell(row: TimesRow, index: int) -> str:
        return f"{row.recorded[index]:.3f} / {row.read[index]:.3f}"

    return rendered(
        result.rows,
        {
            "loop": lambda row: row.name,
            "wall clock": lambda row: cell(row, 0),
            "CPU time": lambda row: cell(row, 1),
            "wait for a core": lambda row: cell(row, 2),
            "largest error": lambda row: f"{max(map(abs, row.errors)):.1%}",
        },
        "Seconds, recorded / read from `/proc`; times below "
        f"{_NOTABLE:.0%} of the wall clock are not compared. {machine(result)}",
    )


BENCHMARK = Benchmark("times", __doc__ or "", measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
