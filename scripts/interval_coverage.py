"""Prints how often the intervals of `headrace compare` contain a known difference."""

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.figures import (
    BootstrapEstimate,
    quantile_estimate,
    ratio_estimate,
)
from headrace.runtime.distribution import P95_SAMPLES

REPEATS = 200
"""Simulated comparisons per row."""
TRUE_RATIO = 1.1
SPREAD = 0.15
"""Standard deviation of the logarithm of a step time."""
HEADER = ("steps", "correlation", "mean", "median", "p95")


def series(mean: float, seed: list[int], steps: int, correlation: float) -> NDArray[np.float64]:
    """Return float64 [steps]: values around a mean; neighbors have this correlation (AR(1))."""
    noise = np.random.default_rng(seed).normal(size=steps + 50)
    states = np.zeros(steps + 50)
    for k in range(1, steps + 50):
        states[k] = correlation * states[k - 1] + np.sqrt(1 - correlation**2) * noise[k]
    return mean * np.exp(SPREAD * states[50:])


def estimates(values: NDArray[np.float64], seed: int) -> list[BootstrapEstimate | None]:
    """Return the estimates of mean, median and p95."""
    ones = np.ones(len(values))
    quantiles = [quantile_estimate(values, share, seed) for share in (0.5, 0.95)]
    return [ratio_estimate(values, ones, seed), *quantiles]


def contains_truth(first: BootstrapEstimate | None, other: BootstrapEstimate | None) -> bool:
    """Whether the interval of the difference contains the true one; a missing one does not."""
    if first is None or other is None or first.deviations is None or other.deviations is None:
        return False
    low, high = np.quantile(other.deviations - first.deviations, (0.025, 0.975))
    shift = np.log(other.value / first.value)
    return bool(shift + low <= np.log(TRUE_RATIO) <= shift + high)


def main() -> None:
    """Print a row per number of steps and correlation."""
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for steps in (30, 60, 100, 300):
        for correlation in (0.0, 0.5, 0.9):
            counts = np.zeros(3)
            for k in range(REPEATS):
                first = estimates(series(1.0, [k, 0], steps, correlation), 2 * k)
                other = estimates(series(TRUE_RATIO, [k, 1], steps, correlation), 2 * k + 1)
                counts += list(map(contains_truth, first, other))
            shares = [f"{100 * share:.0f} %" for share in counts / REPEATS]
            if steps < P95_SAMPLES:
                shares[2] = "not shown"
            print(f"| {steps} | {correlation:g} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
