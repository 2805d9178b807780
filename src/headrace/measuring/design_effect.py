"""The design effect of delivered batches: how often frames of one GOP met in them."""

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.bias import LAGS, design_effect, long_run_inflation, mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.population import Population
from headrace.sampling.rho_estimate import measured_mate_lags
from headrace.sampling.sampler import Sampler

_BATCHES_FOR_A_LAG = 2
"""Batches needed for each step up to which mates are counted; with fewer it would be noise."""


class DesignEffectMeter:
    """Counts frames of one GOP in batches and between them; keeps 8 bytes for each frame."""

    def __init__(self, population: Population, sampler: Sampler, batch_size: int) -> None:
        """Count nothing yet; `sampler` tells between how many batches bursts are dealt out."""
        self._population = population
        self._batch_size = batch_size
        self._lags = LAGS
        if isinstance(sampler, Bursts):
            lags = mate_lags(sampler.frames_per_burst, sampler.lanes, batch_size)
            self._lags = len(lags)
        self._gops: list[NDArray[np.int64]] = []

    def count(self, frame_ids: NDArray[np.int64]) -> None:
        """Take a batch into account, int64 [N]; one that is smaller than the others is left out."""
        if len(frame_ids) == self._batch_size:
            self._gops.append(self._population.gop_of(frame_ids))

    def design_effect(self, rho: float) -> float | None:
        """Return deff by the mates that met in one batch; None where that cannot be told."""
        lags = self._seen(1)
        return None if lags is None else design_effect(rho, lags)

    def inflation(self, rho: float) -> float | None:
        """Return D by the mates in as many batches as a burst lasts, or 8; None as above."""
        lags = self._seen(self._lags)
        return None if lags is None else long_run_inflation(rho, lags)

    def _seen(self, lags: int) -> NDArray[np.float64] | None:
        """Return p with so many lags; None after too few batches, or where all is one GOP."""
        population = self._population
        if population.num_gops == 1 or len(self._gops) < _BATCHES_FOR_A_LAG * (lags - 1) + 1:
            return None
        return measured_mate_lags(np.stack(self._gops), population.gop_lengths, lags)
