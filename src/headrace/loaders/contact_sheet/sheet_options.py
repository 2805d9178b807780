"""Look: which pictures of a batch are shown, and in what room."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.loaders.contact_sheet.contact_sheet import GAP, Strip, strip_height
from headrace.units import check_counts, check_integers

WIDTH: Final = 1280
"""Pixels of a sheet from left to right, at most."""
HEIGHT: Final = 4096
"""Pixels of its strips from top to bottom, at most."""
COLUMNS: Final = 16
_LARGEST: Final = 320
"""Pixels of the longer side of a picture, where few stand side by side."""


@dataclass(frozen=True, kw_only=True)
class SheetOptions:
    """What was asked of a sheet; checked when it is made.

    Raises:
        ConfigError: a number is out of range.
    """

    samples: int | Sequence[int] | None = None
    """So many from the first on, or the samples at these places; None: as many as are looked at
    with ease."""
    frames: int = 8
    """Of each clip, at most; evenly spread from its first to its last."""
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_counts(1, COLUMNS, frames=self.frames)

    def places(self, count: int, usual: int) -> list[int]:
        """Return which of `count` samples are shown, `usual` at most where nothing was asked.

        Raises:
            ConfigError: they are no places of samples, or none.
        """
        asked: Any = usual if self.samples is None else self.samples
        asked = asked.tolist() if hasattr(asked, "tolist") else asked  # an array, a tensor
        if isinstance(asked, Integral | str | bytes) or not isinstance(asked, Sequence):
            check_integers(1, samples=asked)
            return list(range(min(count, int(asked))))
        check_integers(0, **{f"samples[{k}]": each for k, each in enumerate(asked)})
        if not asked or max(asked) >= count:
            raise ConfigError(
                f"samples must be some of the {count} places in the batch, from 0 on, got "
                f"{str([*asked])[:80]}"
            )
        return [int(each) for each in asked]


def spread(count: int, most: int) -> list[int]:
    """Return at most so many of `count` places, evenly from the first to the last."""
    if count <= most:
        return list(range(count))
    return [round(k * (count - 1) / max(1, most - 1)) for k in range(most)]


def room_for(columns: int) -> int:
    """Return how many pixels the longer side of a picture may have, with others beside it."""
    return min(_LARGEST, (WIDTH - GAP) // columns - GAP)


def most_strips(size: tuple[int, int]) -> int:
    """Return how many strips of pictures of a (height, width) a sheet has at most."""
    return max(1, HEIGHT // (size[0] + GAP))


def fitting(strips: Sequence[Strip]) -> tuple[Strip, ...]:
    """Return as many strips, from the first on, as stay within the height of a sheet."""
    ends = accumulate(map(strip_height, strips))
    return tuple(strip for strip, end in zip(strips, ends, strict=True) if end <= HEIGHT)
