"""A random order of n things in constant memory: where each goes is computed, never stored."""

from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.random import Draws

_ROUNDS = 12
"""With 8, pairs of 5 things are told from random ones by 20,000 seeds; with 12, they are not."""


@dataclass(frozen=True, kw_only=True)
class Feistel:
    """A permutation of range(size) that is chosen by `draws`, and its inverse.

    A generalised Feistel network on the pairs (left, right) of a rectangle with at least `size`
    cells: each round turns one half by a keyed hash of the other. What falls outside `size` goes
    through again until it falls inside (cycle walking); at most 1 in sqrt(size) does.
    Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
    """

    size: int
    """In [1, 2**62]."""
    draws: Draws

    def __len__(self) -> int:
        return self.size

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which thing stands at each of `positions`; both in [0, size)."""
        things = self._through(positions, inverse=False)
        while (outside := things >= self.size).any():
            things[outside] = self._through(things[outside], inverse=False)
        return things

    def position_of(self, things: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each of `things` stands: `position_of(at(x)) == x`."""
        positions = self._through(things, inverse=True)
        while (outside := positions >= self.size).any():
            positions[outside] = self._through(positions[outside], inverse=True)
        return positions

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return self.draws.words(np.arange(_ROUNDS))

    def _through(self, cells: NDArray[np.int64], *, inverse: bool) -> NDArray[np.int64]:
        """Return where the network takes each cell of the rectangle."""
        width = isqrt(self.size - 1) + 1
        height = -(-self.size // width)
        halves = list(np.divmod(np.asarray(cells, np.int64), width))
        sizes = height, width
        sign = -1 if inverse else 1
        for number in range(_ROUNDS)[::sign]:
            turned, other = number % 2, 1 - number % 2
            hashed = _hash(halves[other], self._keys[number], sizes[turned])
            halves[turned] = (halves[turned] + sign * hashed) % sizes[turned]
        return np.asarray(halves[0] * width + halves[1])


def _hash(half: NDArray[np.int64], key: np.uint64, below: int) -> NDArray[np.int64]:
    """Return an integer in [0, below) for each value of a half, below < 2**32.

    Source: the finaliser of SplitMix64; Steele, Lea and Flood, OOPSLA 2014.
    """
    with np.errstate(over="ignore"):  # the products are meant modulo 2**64
        bits = half.astype(np.uint64) ^ key
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((bits >> np.uint64(32)) * np.uint64(below) >> np.uint64(32)).astype(np.int64)
