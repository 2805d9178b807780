"""Drawing steps again, in blocks: what the sums of a series could have been as well."""

import numpy as np
from numpy.typing import NDArray


def resampled_sums(
    columns: NDArray[np.float64], block: int, draws: int, seed: int
) -> NDArray[np.float64]:
    """Return the sums of columns over steps that are drawn again, with replacement, in blocks.

    A block is `block` steps that follow each other, from any step on, around the end to the start
    (circular block bootstrap: Politis and Romano 1992): so neighbours that resemble each other are
    drawn together, and their sum spreads as it does in earnest.

    Args:
        columns: float64 [steps, columns].
        block: Steps in a block, >= 1.
        draws: How often all steps are drawn again.
        seed: The same, the same sums.

    Returns:
        float64 [draws, columns]; each is the sum over at least as many steps as there are, the same
        number in every draw. 8 * draws * steps / block bytes of memory, for a moment.
    """
    steps = len(columns)
    circle = np.concatenate([columns, columns[: block - 1]])
    ends = np.concatenate([np.zeros((1, columns.shape[1])), np.cumsum(circle, axis=0)])
    sums = ends[block:] - ends[:-block]
    starts = np.random.default_rng(seed).integers(0, steps, (draws, -(-steps // block)))
    # One column at a time: what is gathered lies together.
    return np.stack([np.ascontiguousarray(column)[starts].sum(axis=1) for column in sums.T], axis=1)
