"""Random numbers by number: draw n is computed from its number, without the draws before it."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.errors import ConfigError
from headrace.sizes import check_integers

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


class Purpose(IntEnum):
    """What draws are for. Draws for different purposes are independent; numbers never change."""

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


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The random numbers of one purpose in one epoch: `Draws(...).integers(numbers, below)`.

    Every draw is a function of (seed, epoch, purpose, number) and of nothing else, so it does not
    matter who draws, when, in which order or in how many slices.
    Source: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
    the seed is the key, the counter is (number, epoch, purpose).
    """

    seed: int
    """In [0, 2**64)."""
    epoch: int
    """In [0, 2**32)."""
    purpose: Purpose

    def __post_init__(self) -> None:
        for name, bits in (("seed", 64), ("epoch", 32)):
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise ConfigError(f"{name} must be at least 0 and below 2**{bits}, got {value}")
            check_integers(0, **{name: value})

    def words(self, numbers: ArrayLike) -> NDArray[np.uint64]:
        """Return 64 random bits for each of `numbers`, which are at least 0; same shape."""
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

        `below` is at least 1 and broadcasts. Exact but for the last place: the probability of a
        value differs from 1 / below by less than 2**-64, so the relative bias is below
        `below` * 2**-64, 6e-12 for 10**8 frames. No draw is rejected, because a draw that may
        take another word could not be computed from its number alone.
        Source: the high word of word * below; Lemire, "Fast random integer generation in an
        interval", 2019.
        """
        return _high_word(self.words(numbers), np.asarray(below).astype(np.uint64))

    def fractions(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """Return a float64 uniform in [0, 1) for each of `numbers`, a multiple of 2**-53."""
        return (self.words(numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def philox(counter: tuple[NDArray[np.uint64], ...], key: int) -> tuple[NDArray[np.uint64], ...]:
    """Return the 4 words Philox4x32-10 makes of 4 counter words; 32 bits each, in uint64.

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
    """Return a * b // 2**64, from four products of half words that cannot overflow."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    carry = a_low * b_high + (middle & _LOW)
    return np.asarray(a_high * b_high + (middle >> _HALF) + (carry >> _HALF)).astype(np.int64)
