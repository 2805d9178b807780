"""A short turn before a camera experiment: what decoding takes, and the start of workers."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.bench.camera_rank import RankTask, opened_dataset, run_rank, stock_loader
from headrace.measuring.loader_adapters import end_workers
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.training.cameras.batch import Cell

_EMPTY = Cell(slot=0, clip=-1, row=-1, is_first=False)
"""A slot that has run out of clips: nothing is decoded for it."""


@dataclass(frozen=True, kw_only=True)
class RehearsalTask:
    """What a process rehearses."""

    decoding: RankTask
    workers: tuple[int, ...]
    """Numbers of workers whose start in a DataLoader is timed."""
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What it took."""

    decode_seconds: float
    delivered: int
    """Pictures, in that time."""
    worker_seconds: dict[int, float]
    """Number of workers → from their start until each had given a batch, and they were ended."""


def rehearse(task: RehearsalTask, ready: Callable[[], None]) -> Rehearsal:
    """Decode what there is, then start and end workers that decode nothing."""
    begun_ns = 0

    def begin() -> None:
        nonlocal begun_ns
        ready()
        begun_ns = task.clock.now_ns()

    result = run_rank(task.decoding, begin)
    return Rehearsal(
        decode_seconds=_seconds_since(begun_ns, task.clock),
        delivered=result.delivered,
        worker_seconds={workers: _start(task, workers) for workers in task.workers},
    )


def _start(task: RehearsalTask, workers: int) -> float:
    with opened_dataset(task.decoding) as dataset:
        loader = stock_loader(
            dataset, [[_EMPTY]] * workers, replace(task.decoding, workers=workers)
        )
        begun_ns = task.clock.now_ns()
        epoch = iter(loader)
        try:
            for _ in epoch:
                pass
        finally:
            end_workers(epoch)
        return _seconds_since(begun_ns, task.clock)


def _seconds_since(begun_ns: int, clock: Clock) -> float:
    return (clock.now_ns() - begun_ns) / 1e9
