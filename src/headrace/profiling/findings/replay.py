"""How fast a loop would be with other workers: its own times, run again through a DataLoader."""

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Final

_FEWEST: Final = 300
"""Steps that are replayed at least; fewer are gone through several times."""
_MOST: Final = 2_000
"""Steps of a long loop that are replayed, its last ones."""


def replay_ms(
    batch_ms: Sequence[float],
    step_ms: Sequence[float],
    *,
    workers: int,
    prefetch: int,
) -> float:
    """Return how long a step takes on average, its wait included; about 1 ms.

    Batch k is made by worker k modulo `workers`, as soon as that is free and the batch
    `workers * prefetch` places before it was taken. The loop takes them in order.

    Args:
        batch_ms: What making each batch takes.
        step_ms: What the loop does with each, as many; taking it over from its worker among it.
        workers: Of the DataLoader; 0: the loop makes its batches itself.
        prefetch: Batches each worker may be ahead.
    """
    batch_ms, step_ms = batch_ms[-_MOST:], step_ms[-_MOST:]
    if not workers:
        return (sum(batch_ms) + sum(step_ms)) / len(batch_ms)
    ahead = workers * prefetch
    count = 2 * ahead + max(_FEWEST, len(batch_ms))
    free, taken = [0.0] * workers, [0.0] * count
    now = 0.0
    pairs = zip(cycle(batch_ms), cycle(step_ms), strict=True)
    for number, (batch, step) in enumerate(islice(pairs, count)):
        asked = taken[number - ahead] if number >= ahead else 0.0
        worker = number % workers
        free[worker] = max(free[worker], asked) + batch
        taken[number] = max(now, free[worker])
        now = taken[number] + step
    return (now - taken[2 * ahead]) / (count - 2 * ahead)
