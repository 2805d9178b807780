"""Cost of one strategy: simulated without decoding, or measured by a short run."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.loaders.frame_loader import Batch, ClipLoader, FrameLoader
from headrace.loaders.hold_choice import Hold
from headrace.loaders.video_set import VideoSet
from headrace.measuring.decode_counts import time_delivery
from headrace.measuring.interleaved import cores_of_others
from headrace.measuring.loader_adapters import LoaderDelivery
from headrace.planning.lookahead import look_ahead
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.bias import (
    DEFAULT_RHO,
    LAGS,
    design_effect,
    long_run_inflation,
    mate_lags,
    measured_mate_lags,
)
from headrace.sampling.decode_cost import DecodeCost, FirstEpoch
from headrace.sampling.frame_samplers import Bursts
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler

_SKIPPED = 2
"""Windows skipped at the start: they decode more, because nothing is buffered yet."""
_COUNTED = 4
"""Windows counted."""
_LEAST_REQUESTS = 10_000
_MOST_REQUESTS = 400_000
_BLOCK = 4096
"""Samples drawn at a time; a draw of one batch costs about as much."""
_BATCHES_FOR_A_LAG = 2
"""Min batches per lag at which mates are counted; fewer are too noisy."""


def simulate(
    population: Population, sampler: Sampler, *, lookahead: int, capacity: int, batch_size: int
) -> DecodeCost:
    """Return the decode cost of `sampler` under a loader's planner and memory limit.

    Unlike the formulas of `sampling.decode_cost`, it includes the memory limit, draws without
    replacement, and the first epoch. It simulates six windows, the first two uncounted: 10,000 to
    400,000 requests, 2 to 5 microseconds each; the rest of a longer first epoch costs the mean.

    Args:
        population: All frames.
        sampler: Chooses the requested frames.
        lookahead: Requests the planner sees.
        capacity: Max distinct frames held for later batches.
        batch_size: Samples in a batch (frames or clips), at most the samples of an epoch.
    """
    requests = max(_LEAST_REQUESTS, (_SKIPPED + _COUNTED) * lookahead)
    frames_per_batch = batch_size * (sampler.traits.num_frames or 1)
    batches = max(2, min(_MOST_REQUESTS, requests) // frames_per_batch)
    skipped = batches * _SKIPPED // (_SKIPPED + _COUNTED)
    epoch_frames = len(sampler.order(population, 0)) * (sampler.traits.num_frames or 1)
    steady, first = np.zeros(3), np.zeros(3)  # frames decoded, seeks, frames delivered
    held = held_sum = 0
    plan = look_ahead(
        _requests(population, sampler, batch_size),
        population,
        lookahead=lookahead,
        capacity=capacity,
        first=frames_per_batch,
    )
    for number, batch in zip(range(batches), plan, strict=False):
        held += sum(len(job.frames) for job in batch.jobs) - len(batch.released)
        decoded = sum(
            max(job.frames) - int(population.gop_start[job.gop]) + 1 for job in batch.jobs
        )
        costs = (decoded, len(batch.jobs), batch.requests.size)
        if first[2] < epoch_frames:
            first += costs
        if number >= skipped:
            steady += costs
            held_sum += held
    rest = steady * max(0.0, epoch_frames - first[2]) / steady[2]
    (amplification, seeks), epoch = steady[:2] / steady[2], first + rest
    return DecodeCost(
        amplification=float(amplification),
        seeks=float(seeks),
        held_frames=held_sum / (batches - skipped),
        first_epoch=FirstEpoch(
            amplification=float(epoch[0] / epoch[2]),
            seeks=float(epoch[1] / epoch[2]),
            frames=epoch_frames,
        ),
    )


def _requests(
    population: Population, sampler: Sampler, batch_size: int
) -> Iterator[NDArray[np.int64]]:
    """Yield full batches, epoch after epoch."""
    for epoch in count():
        order = sampler.order(population, epoch)
        size = min(batch_size, len(order))
        block = max(1, _BLOCK // size) * size
        for start in range(0, len(order) - size + 1, block):
            samples = order[start : start + block]
            for first in range(0, len(samples) - size + 1, size):
                yield samples[first : first + size]


@dataclass(frozen=True, kw_only=True)
class PlanProbe:
    """Figures of a loader in steady state."""

    frames_per_second: float
    """Frames delivered per second."""
    amplification: float
    """Frames decoded ÷ frames delivered."""
    seeks: float
    """Seeks per frame delivered."""
    most_held_bytes: int
    """Max buffered bytes since the start."""
    memory_bytes: int
    """Max buffered bytes plus two batches (the caller's and the next); excludes codecs."""
    design_effect: float | None
    """Variance of a batch ÷ variance of independent frames, from the assumed ρ and the excess over
    chance of frames of one GOP in the same batch. None for clips, and with a single GOP."""
    inflation: float | None
    """Statistical inefficiency over the batches of a burst, or over 8; None also with too few
    batches."""
    frames: int
    """Frames delivered while measured, over all clips."""
    seconds: float
    """Measured time."""
    is_filled: bool
    """False if the lookahead was not full before the measurement, so the rate is too low."""
    others: float | None = None
    """Cores kept busy by other programs during the measurement; None: unknown."""


def run_probe(
    videos: VideoSet,
    sampler: Sampler,
    *,
    lookahead: int,
    batch_size: int,
    size: tuple[int, int],
    memory_budget: int,
    workers: int,
    hold: Hold = "rgb",
    rho: float = DEFAULT_RHO,
    seconds: float = 10.0,
    store: IndexStore | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> PlanProbe:
    """Deliver batches until the window is full, for at most six times `seconds`; then measure.

    Raises:
        ConfigError: see `FrameLoader`.
    """
    num_frames = sampler.traits.num_frames
    build: Callable[..., FrameLoader] = partial(FrameLoader, sampling=sampler)
    if num_frames is not None:
        build = partial(ClipLoader, clips=sampler)
    loader = build(
        [index.source for index in videos.indexes],
        batch_size=batch_size,
        size=size,
        lookahead=lookahead,
        memory_budget=memory_budget,
        hold=hold,
        num_threads=workers,
        on_error="skip",
        index_store=store,
        clock=clock,
    )
    population = videos.population
    meter = DesignEffectMeter(population, sampler, batch_size) if num_frames is None else None

    def count(batch: Batch) -> None:
        if meter is not None:
            meter.count(population.frame_ids(batch.video.numpy(), batch.index.numpy()))

    delivery = LoaderDelivery(loader, count)
    repetition = time_delivery(type(sampler).__name__, delivery, seconds, clock)
    return PlanProbe(
        memory_bytes=repetition.held_bytes
        + 2 * batch_size * (num_frames or 1) * math.prod(size) * 3,
        design_effect=None if meter is None else meter.design_effect(rho),
        inflation=None if meter is None else meter.inflation(rho),
        frames_per_second=repetition.frames / repetition.seconds,
        amplification=repetition.decoded / repetition.frames,
        seeks=repetition.seeks / repetition.frames,
        most_held_bytes=repetition.held_bytes,
        frames=repetition.frames,
        seconds=repetition.seconds,
        is_filled=repetition.is_filled,
        others=cores_of_others([repetition]),
    )


class DesignEffectMeter:
    """Counter of frames of one GOP within and between batches; 8 bytes per frame."""

    def __init__(self, population: Population, sampler: Sampler, batch_size: int) -> None:
        """Start empty; a burst `sampler` determines the number of lags."""
        self._population = population
        self._batch_size = batch_size
        self._lags = LAGS
        if isinstance(sampler, Bursts):
            lags = mate_lags(sampler.frames_per_burst, sampler.lanes, batch_size)
            self._lags = len(lags)
        self._gops: list[NDArray[np.int64]] = []

    def count(self, frame_ids: NDArray[np.int64]) -> None:
        """Count a full batch, int64 [N]; ignore smaller ones."""
        if len(frame_ids) == self._batch_size:
            self._gops.append(self._population.gop_of(frame_ids))

    def design_effect(self, rho: float) -> float | None:
        """Return the design effect of a batch; None: unknown."""
        lags = self._mate_lags(1)
        return None if lags is None else design_effect(rho, lags)

    def inflation(self, rho: float) -> float | None:
        """Return the statistical inefficiency over the batches of a burst, or over 8; None:
        unknown."""
        lags = self._mate_lags(self._lags)
        return None if lags is None else long_run_inflation(rho, lags)

    def _mate_lags(self, lags: int) -> NDArray[np.float64] | None:
        """Return p at `lags` lags; None after too few batches, or with one GOP only."""
        population = self._population
        if population.num_gops == 1 or len(self._gops) < _BATCHES_FOR_A_LAG * (lags - 1) + 1:
            return None
        return measured_mate_lags(np.stack(self._gops), population.gop_lengths, lags)
