"""Which video each slot of an epoch is of."""

import numpy as np
import pytest

from headrace.sampling.visits import Visits

WEIGHTS = np.array([2.5, 1.5, 0.4, 0.3, 0.3])
VIDEOS = np.arange(len(WEIGHTS))


@pytest.mark.parametrize(
    "draws",
    [[(0, epoch) for epoch in range(2000)], [(seed, 0) for seed in range(2000)]],
    ids=["epochs", "seeds"],
)
def test_a_video_comes_as_its_share_says_rounded_and_on_average_exactly_so(draws):
    visits = [Visits.shuffled(VIDEOS, WEIGHTS, seed=seed, epoch=epoch) for seed, epoch in draws]
    counts = np.array([np.bincount(each.at(VIDEOS), minlength=len(VIDEOS)) for each in visits])
    assert set(np.unique(counts - np.floor(WEIGHTS).astype(int))) == {0, 1}
    part = WEIGHTS - np.floor(WEIGHTS)
    error = np.sqrt(part * (1 - part) / len(draws))
    assert (np.abs(counts.mean(axis=0) - WEIGHTS) <= 4 * error).all()
