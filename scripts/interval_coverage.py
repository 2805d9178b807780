"""Prints how often the intervals of `headrace compare` hold a difference that is known."""

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.comparison.estimate import (
    BootstrapEstimate,
    quantile_estimate,
    ratio_estimate,
)
from headrace.runtime.distribution import P95_SAMPLES

REPEATS = 200
TRUTH = 1.1
SPREAD = 0.15
HEADS = ("steps", "likeness", "mean", "median", "p95")


def series(mean: float, seed: list[int], steps: int, likeness: float) -> NDArray[np.float64]:
    """Return float64 [steps]: values around a mean, each like the one before it by so much."""
    noise = np.random.default_rng(seed).normal(size=steps + 50)
    states = np.zeros(steps + 50)
    for k in range(1, steps + 50):
        states[k] = likeness * states[k - 1] + np.sqrt(1 - likeness**2) * noise[k]
    return mean * np.exp(SPREAD * states[50:])


def estimates(values: NDArray[np.float64], seed: int) -> list[BootstrapEstimate | None]:
    """Return the three kinds of figures there are."""
    ones = np.ones(len(values))
    quantiles = [quantile_estimate(values, share, seed) for share in (0.5, 0.95)]
    return [ratio_estimate(values, ones, seed), *quantiles]


def held(first: BootstrapEstimate | None, other: BootstrapEstimate | None) -> bool:
    """Whether the interval holds the truth; one that is not there does not."""
    if first is None or other is None or first.deviations is None or other.deviations is None:
        return False
    low, high = np.quantile(other.deviations - first.deviations, (0.025, 0.975))
    shift = np.log(other.value / first.value)
    return bool(shift + low <= np.log(TRUTH) <= shift + high)


def main() -> None:
    """Print a row for each length and likeness."""
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for steps in (30, 60, 100, 300):
        for likeness in (0.0, 0.5, 0.9):
            counts = np.zeros(3)
            for k in range(REPEATS):
                first = estimates(series(1.0, [k, 0], steps, likeness), 2 * k)
                other = estimates(series(TRUTH, [k, 1], steps, likeness), 2 * k + 1)
                counts += [held(a, b) for a, b in zip(first, other, strict=True)]
            shares = [f"{100 * share:.0f} %" for share in counts / REPEATS]
            if steps < P95_SAMPLES:
                shares[2] = "not shown"
            print(f"| {steps} | {likeness:g} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
