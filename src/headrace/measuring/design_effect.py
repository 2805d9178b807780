"""Design effect of delivered batches, from frames of one GOP in the same batch."""

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.bias import LAGS, design_effect, long_run_inflation, mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.population import Population
from headrace.sampling.rho_estimate import measured_mate_lags
from headrace.sampling.sampler import Sampler

_BATCHES_FOR_A_LAG = 2
"""Min batches per lag at which mates are counted; fewer are too noisy."""


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
