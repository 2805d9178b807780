"""How many steps resemble their neighbours: the length of the blocks they are drawn again in."""

import math

import numpy as np
from numpy.typing import NDArray


def block_length(series: NDArray[np.float64]) -> int:
    """Return the steps in a block that lets the mean of a series spread as it does in earnest.

    By the rule of Politis and White (2004, corrected with Patton 2009) for circular blocks, which
    grow with what neighbours have in common; but the cube root of the steps at least, since the
    rule sees too little of it in short series, and a fifth of the steps at most.

    Args:
        series: float64 [steps].
    """
    steps = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / steps
    if steps < 5 or variance <= 0:
        return 1
    most = min(steps - 1, math.ceil(math.sqrt(steps)) + 2 * _stretch(steps))
    covariances = np.array([centred[: steps - lag] @ centred[lag:] for lag in range(most + 1)])
    covariances = covariances / steps
    last = min(most, 2 * _last_lag(covariances / variance, steps))
    lags = np.arange(-last, last + 1)
    # A flat top: full weight for the first half of the lags, then down to nothing.
    weights = np.clip(2 * (1 - np.abs(lags) / max(1, last)), 0, 1)
    spectrum = float((weights * covariances[np.abs(lags)]).sum())
    slope = float((weights * np.abs(lags) * covariances[np.abs(lags)]).sum())
    least = round(math.pow(steps, 1 / 3))
    if spectrum <= 0:
        return least
    length = math.pow(1.5 * (slope / spectrum) ** 2 * steps, 1 / 3)
    return max(least, min(round(length), steps // 5))


def _stretch(steps: int) -> int:
    """Lags in a row that must look like noise."""
    return max(5, math.ceil(math.sqrt(math.log10(steps))))


def _last_lag(correlations: NDArray[np.float64], steps: int) -> int:
    """The lag behind which correlations look like noise; at least 1."""
    limit = 2 * math.sqrt(math.log10(steps) / steps)
    stretch = _stretch(steps)
    for lag in range(len(correlations) - stretch):
        if (np.abs(correlations[lag + 1 : lag + 1 + stretch]) < limit).all():
            return max(1, lag)
    return max(1, len(correlations) - 1)
