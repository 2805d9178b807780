"""Strategies compared for given videos and memory, on a machine of given speed."""

import numpy as np

from headrace.sampling.costs import lookahead_for
from headrace.sampling.speed import Speed
from headrace.sampling.strategies import Budget, Noise, Strategy, compare

SPEED = Speed(
    seconds_per_seek=0.004, seconds_per_decoded=0.002, seconds_per_delivered=0.001, workers=2
)


def compared(
    gop_lengths, *, batch_size=128, later=2000, speed=SPEED, rho=0.5, contraction=0.01, **options
) -> dict[str, Strategy]:
    """Name → strategy; bursts are called "bursts", whatever their size."""
    lengths = np.array(gop_lengths)
    most = 4 * int(lengths.sum())
    ahead, once = (
        max(batch_size, min(most, lookahead_for(lengths, max(1, later), each_once=each_once)))
        for each_once in (False, True)
    )
    budget = Budget(
        batch_size=batch_size,
        frame_bytes=3000,
        later_frames=later,
        lookahead=ahead,
        lookahead_once=once,
    )
    noise = Noise(rho=rho, contraction=contraction)
    rows = compare(lengths, budget, speed, noise=noise, **options)
    return {"bursts" if row.name.startswith("bursts") else row.name: row for row in rows}
