"""Trial: a short real run of one strategy, to hold a prediction against."""

from dataclasses import dataclass

from headrace.decode.index_store import IndexStore
from headrace.experiments.contend import cores_of_others
from headrace.experiments.delivery import LoaderDelivery
from headrace.experiments.design_effect import DesignEffectMeter
from headrace.experiments.steady import take_turn
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.rho import TAKEN_RHO
from headrace.sampling.sampler import Sampler
from headrace.training.loader import FrameLoader
from headrace.training.video_set import VideoSet


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
    others: float | None = None
    """Cores that other programs kept busy meanwhile; None if that is unknown."""


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
    loader = FrameLoader(
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
    )
    population = videos.population
    noise = DesignEffectMeter(population, sampler, batch_size)
    delivery = LoaderDelivery(
        loader,
        lambda batch: noise.count(population.frame_ids(batch.video.numpy(), batch.index.numpy())),
    )
    turn = take_turn(type(sampler).__name__, delivery, seconds, clock)
    return Trial(
        memory_bytes=turn.held_bytes + 2 * batch_size * size[0] * size[1] * 3,
        design_effect=noise.design_effect(rho),
        inflation=noise.inflation(rho),
        frames_per_second=turn.frames / turn.seconds,
        amplification=turn.decoded / turn.frames,
        seeks=turn.seeks / turn.frames,
        most_held_bytes=turn.held_bytes,
        frames=turn.frames,
        seconds=turn.seconds,
        is_filled=turn.is_filled,
        others=cores_of_others([turn]),
    )
