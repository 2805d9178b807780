"""Plan simulation: frames that a strategy decodes and holds, counted without decoding."""

from collections.abc import Iterator
from itertools import count

import numpy as np
from numpy.typing import NDArray

from headrace.planning.lookahead import look_ahead
from headrace.sampling.decode_cost import DecodeCost
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler

_SKIPPED = 2
"""Windows skipped at the start: they decode more, because nothing is buffered yet."""
_COUNTED = 4
"""Windows counted."""
_LEAST_REQUESTS = 10_000
_MOST_REQUESTS = 400_000


def simulate(
    population: Population, sampler: Sampler, *, lookahead: int, capacity: int, batch_size: int
) -> DecodeCost:
    """Return the decode cost of `sampler` under a loader's planner and memory limit.

    Unlike the formulas of `sampling.decode_cost`, it includes the memory limit and draws without
    replacement. It simulates six windows, the first two uncounted: 10,000 to 400,000 requests, 2 to
    5 microseconds each.

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
    decoded = seeks = held = held_sum = delivered = 0
    plan = look_ahead(
        _requests(population, sampler, batch_size),
        population,
        lookahead=lookahead,
        capacity=capacity,
    )
    for number, batch in zip(range(batches), plan, strict=False):
        held += sum(len(job.frames) for job in batch.jobs) - len(batch.released)
        if number >= skipped:
            decoded += sum(
                max(job.frames) - int(population.gop_start[job.gop]) + 1 for job in batch.jobs
            )
            seeks += len(batch.jobs)
            held_sum += held
            delivered += batch.requests.size
    return DecodeCost(
        amplification=decoded / delivered,
        seeks=seeks / delivered,
        held_frames=held_sum / (batches - skipped),
    )


def _requests(
    population: Population, sampler: Sampler, batch_size: int
) -> Iterator[NDArray[np.int64]]:
    """Yield full batches, epoch after epoch."""
    for epoch in count():
        order = sampler.order(population, epoch)
        size = min(batch_size, len(order))
        for start in range(0, len(order) - size + 1, size):
            yield order[start : start + size]
