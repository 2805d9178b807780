"""Whose sample a slot delivers when its own is bad: a rule, so that timing plays no part in it."""

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.random import Draws, Purpose

ATTEMPTS = 64
"""Substitutes a slot has; with half of all frames bad, all of them are bad once in 10**19 slots."""


def substitutes(
    length: int, slots: NDArray[np.int64], attempt: int, *, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return the slots whose samples stand in for those of `slots`, in an epoch of `length`.

    A slot's substitute number `attempt`, in [0, ATTEMPTS), is the sample of a slot drawn uniformly
    from the epoch by (seed, epoch, slot, attempt). Taking the first good one gives every slot the
    law of its sampler under the condition that the sample is good, and the same result whoever
    asks: another number of workers or ranks, or a run that knew the bad frames from the start.
    """
    draws = Draws(seed=seed, epoch=epoch, purpose=Purpose.SUBSTITUTE)
    return draws.integers(slots * ATTEMPTS + attempt, length)
