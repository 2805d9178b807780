"""Trial: a short real run of one strategy, to hold a prediction against."""

from dataclasses import dataclass

from headrace.decode.index_store import IndexStore
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.order import Sampler
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
        started_ns = clock.now_ns()
        before: LoaderStatistics | None = None
        is_filled = False
        while True:
            for _ in loader:
                now, elapsed = loader.statistics, (clock.now_ns() - started_ns) / 1e9
                if before is not None and elapsed >= seconds:
                    return _trial(before, now, elapsed, is_filled=is_filled)
                is_filled = now.frames_delivered >= lookahead if before is None else is_filled
                if before is None and (is_filled or elapsed >= _FILLING * seconds):
                    before, started_ns = now, clock.now_ns()


def _trial(
    before: LoaderStatistics, after: LoaderStatistics, seconds: float, *, is_filled: bool
) -> Trial:
    frames = after.frames_delivered - before.frames_delivered
    return Trial(
        frames_per_second=frames / seconds,
        amplification=(after.frames_decoded - before.frames_decoded) / frames,
        seeks=(after.seeks - before.seeks) / frames,
        most_held_bytes=after.most_held_bytes,
        frames=frames,
        seconds=seconds,
        is_filled=is_filled,
    )
