"""Trial: a short real run of one strategy, to hold a prediction against."""

from dataclasses import dataclass

from headrace.decode.index_store import IndexStore
from headrace.experiments.mates import MateCounter
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.rho import TAKEN_RHO
from headrace.sampling.sampler import Sampler
from headrace.training.loader import FrameLoader
from headrace.training.statistics import LoaderStatistics
from headrace.training.video_set import VideoSet

_FILLING = 6
"""The first requests of a window meet every GOP for the first time, at the cost of naive access."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a loader did, after it had filled its window."""

    frames_per_second: float
    """Frames delivered per second."""
    amplification: float
    """Frames decoded ÷ frames delivered."""
    seeks: float
    """Seeks per frame delivered."""
    most_held_bytes: int
    """The most that was held at a time, from the start on."""
    memory_bytes: int
    """That, and two batches: the caller's and the next; what the budget is for, but for codecs."""
    design_effect: float | None
    """Variance of a batch ÷ that of independent frames: by frames of one GOP that met in its
    batches, beyond those that meet by chance, and by the ρ that was taken. None of one GOP only."""
    inflation: float | None
    """The same over as many batches as a burst lasts, or 8; None also after too few of them."""
    frames: int
    """Frames delivered while it was measured."""
    seconds: float
    """How long it was measured."""
    is_filled: bool
    """False if it had not looked ahead as far as it may before it was measured; then it was
    measured slower than it will be."""


def run_trial(
    videos: VideoSet,
    sampler: Sampler,
    *,
    lookahead: int,
    batch_size: int,
    size: tuple[int, int],
    memory_budget: int,
    workers: int,
    rho: float = TAKEN_RHO,
    seconds: float = 10.0,
    store: IndexStore | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Trial:
    """Deliver batches until the window has been filled, then measure for `seconds`.

    Filling may take six times as long and no longer. Bad frames are replaced.

    Raises:
        ConfigError: see `FrameLoader`.
    """
    with FrameLoader(
        [index.source for index in videos.indexes],
        batch_size=batch_size,
        size=size,
        sampling=sampler,
        lookahead=lookahead,
        memory_budget=memory_budget,
        workers=workers,
        on_error="skip",
        store=store,
        clock=clock,
    ) as loader:
        population = videos.population
        mates = MateCounter(population, sampler, batch_size)
        started_ns = clock.now_ns()
        before: LoaderStatistics | None = None
        is_filled = False
        while True:
            for batch in loader:
                now, elapsed = loader.statistics, (clock.now_ns() - started_ns) / 1e9
                mates.count(population.frame_ids(batch.video.numpy(), batch.index.numpy()))
                if before is not None and elapsed >= seconds:
                    batches = 2 * batch_size * size[0] * size[1] * 3
                    return _trial(before, now, elapsed, mates, rho, batches, is_filled=is_filled)
                is_filled = now.frames_delivered >= lookahead if before is None else is_filled
                if before is None and (is_filled or elapsed >= _FILLING * seconds):
                    before, started_ns = now, clock.now_ns()


def _trial(
    before: LoaderStatistics,
    after: LoaderStatistics,
    seconds: float,
    mates: MateCounter,
    rho: float,
    batches_bytes: int,
    *,
    is_filled: bool,
) -> Trial:
    frames = after.frames_delivered - before.frames_delivered
    return Trial(
        memory_bytes=after.most_held_bytes + batches_bytes,
        design_effect=mates.design_effect(rho),
        inflation=mates.inflation(rho),
        frames_per_second=frames / seconds,
        amplification=(after.frames_decoded - before.frames_decoded) / frames,
        seeks=(after.seeks - before.seeks) / frames,
        most_held_bytes=after.most_held_bytes,
        frames=frames,
        seconds=seconds,
        is_filled=is_filled,
    )
