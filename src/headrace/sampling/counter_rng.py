"""Counter-based random numbers: draw n is computed from n, without earlier draws."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from math import isqrt

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.units import check_integers

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


class RngStream(IntEnum):
    """Independent streams of random numbers, by purpose. The values never change."""

    FRAME = 0
    SHUFFLE = 2
    ROTATION = 3
    START = 4
    JITTER = 5
    SUBSTITUTE = 6
    SLOT = 7
    HEAD = 8
    HELD_OUT = 9
    DUMMY_LABEL = 10
    SEGMENT = 11
    TRANSFORM = 20
    AUGMENT = 24


@dataclass(frozen=True)
class CounterRng:
    """Random numbers of one purpose in one epoch: `CounterRng(...).integers(numbers, below)`.

    A draw depends only on (seed, epoch, purpose, number), not on the process, the time, the order
    or the slicing of the draws.
    Source: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
    the seed is the key, the counter is (number, epoch, purpose).
    """

    seed: int
    """In [0, 2**64)."""
    epoch: int
    """In [0, 2**32)."""
    purpose: RngStream

    def __post_init__(self) -> None:
        for name, bits in (("seed", 64), ("epoch", 32)):
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise ConfigError(f"{name} must be at least 0 and below 2**{bits}, got {value}")
            check_integers(0, **{name: value})

    def words(self, numbers: ArrayLike) -> NDArray[np.uint64]:
        """Return 64 random bits for each of `numbers` (>= 0), with the same shape."""
        number = np.asarray(numbers).astype(np.uint64)
        counter = (
            number & _LOW,
            number >> _HALF,
            np.full_like(number, self.epoch),
            np.full_like(number, self.purpose),
        )
        words = philox(counter, self.seed)
        return words[1] << _HALF | words[0]

    def integers(self, numbers: ArrayLike, below: ArrayLike) -> NDArray[np.int64]:
        """Return an integer uniform in [0, below) for each of `numbers`.

        `below` is at least 1 and broadcasts. Nearly exact: the probability of a value differs from
        1 / below by less than 2**-64, so the relative bias is less than `below` * 2**-64, 6e-12 for
        10**8 frames. No draw is rejected: with rejection, a draw could not be computed from its
        number alone.
        Source: the high word of word * below; Lemire, "Fast random integer generation in an
        interval", 2019.
        """
        return _high_word(self.words(numbers), np.asarray(below).astype(np.uint64))

    def fractions(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """Return a float64 uniform in [0, 1) for each of `numbers`, a multiple of 2**-53."""
        return (self.words(numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def philox(counter: tuple[NDArray[np.uint64], ...], key: int) -> tuple[NDArray[np.uint64], ...]:
    """Return the 4 output words of Philox4x32-10 for 4 counter words; 32 bits each, in uint64.

    `key` is in [0, 2**64), its low word first.
    """
    c0, c1, c2, c3 = counter
    key0, key1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (second >> _HALF) ^ c1 ^ np.uint64(key0), second & _LOW
        c2, c3 = (first >> _HALF) ^ c3 ^ np.uint64(key1), first & _LOW
        key0, key1 = (key0 + _WEYL[0]) & 0xFFFFFFFF, (key1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def _high_word(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return a * b // 2**64, from four products of half words, which cannot overflow."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    carry = a_low * b_high + (middle & _LOW)
    return np.asarray(a_high * b_high + (middle >> _HALF) + (carry >> _HALF)).astype(np.int64)


_FEISTEL_ROUNDS = 12
"""With 8 rounds, a test of 20,000 seeds rejects the randomness of pairs of 5 items; not with 12."""


@dataclass(frozen=True, kw_only=True)
class Feistel:
    """A permutation of range(size), chosen by `draws`, and its inverse.

    A generalized Feistel network on the pairs (left, right) of a rectangle with at least `size`
    cells: each round rotates one half by a keyed hash of the other. A value outside `size` is
    permuted again until it is inside (cycle walking); at most 1 in sqrt(size) is.
    Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
    """

    size: int
    """In [1, 2**62]."""
    draws: CounterRng

    def __len__(self) -> int:
        return self.size

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the item at each of `positions`; both in [0, size)."""
        return self._walk(positions, inverse=False)

    def position_of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each of `items`: `position_of(at(x)) == x`."""
        return self._walk(items, inverse=True)

    def _walk(self, values: NDArray[np.int64], *, inverse: bool) -> NDArray[np.int64]:
        permuted = self._permute(values, inverse=inverse)
        while (outside := permuted >= self.size).any():
            permuted[outside] = self._permute(permuted[outside], inverse=inverse)
        return permuted

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return self.draws.words(np.arange(_FEISTEL_ROUNDS))

    def _permute(self, cells: NDArray[np.int64], *, inverse: bool) -> NDArray[np.int64]:
        """Apply the network, or its inverse, once to each cell."""
        width = isqrt(self.size - 1) + 1
        height = -(-self.size // width)
        halves = list(np.divmod(np.asarray(cells, np.int64), width))
        sizes = height, width
        sign = -1 if inverse else 1
        with np.errstate(over="ignore"):  # products of a hash are modulo 2**64
            for number in range(_FEISTEL_ROUNDS)[::sign]:
                rotated, other = number % 2, 1 - number % 2
                hashed = _hash(halves[other], self._keys[number], sizes[rotated])
                halves[rotated] = (halves[rotated] + sign * hashed) % sizes[rotated]
        return np.asarray(halves[0] * width + halves[1])


def _hash(half: NDArray[np.int64], key: np.uint64, below: int) -> NDArray[np.int64]:
    """Return a hash in [0, below) of each value; below < 2**32.

    Source: the finalizer of SplitMix64; Steele, Lea and Flood, OOPSLA 2014.
    """
    bits = half.astype(np.uint64) ^ key
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((bits >> np.uint64(32)) * np.uint64(below) >> np.uint64(32)).astype(np.int64)


@contextmanager
def seeded(device: torch.device) -> Iterator[Callable[[int], None]]:
    """Yield a function that seeds all generators that transforms use; about 20 µs per call.

        with seeded(frames.device) as seed:
            for number, frame in zip(numbers, frames): seed(number); transform(frame)

    The generators are PyTorch's on the CPU and on `device`, NumPy's, and Python's `random`. They
    are global to the process: other threads should not draw meanwhile. Their state from before the
    block is restored after it.
    """
    generators = [torch.default_generator]
    if device.type == "cuda":
        generators.append(torch.cuda.default_generators[device.index or 0])
    states = [generator.get_state() for generator in generators]
    python_state, numpy_state = random.getstate(), np.random.get_state()

    def seed(number: int) -> None:
        """Seed all generators with an integer >= 0."""
        for generator in generators:
            generator.manual_seed(number % 2**63)
        random.seed(number)
        np.random.seed(number % 2**32)

    try:
        yield seed
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)


ATTEMPTS = 64
"""Max substitutes per slot. If half of all frames are bad, all are bad for one slot in 10**19."""


def substitutes(
    length: int, slots: NDArray[np.int64], attempt: int, *, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return the slots whose samples replace the samples of `slots`, in an epoch of `length`.

    Substitute number `attempt`, in [0, ATTEMPTS), is the sample of a slot drawn uniformly from the
    epoch by (seed, epoch, slot, attempt). With the first good substitute, every slot has the
    distribution of its sampler conditional on a good sample. The result is the same for any number
    of workers or ranks, and for a run that knows the bad frames from its start.
    """
    draws = CounterRng(seed, epoch, RngStream.SUBSTITUTE)
    return draws.integers(slots * ATTEMPTS + attempt, length)
