"""SheetOptions: the samples of a batch to show, and the grid that is built of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from numbers import Integral
from typing import Any, Final

import torch

from headrace.errors import ConfigError
from headrace.loaders.contact_sheet.contact_sheet import (
    GAP,
    Cell,
    ContactSheet,
    Mark,
    Strip,
    strip_height,
)
from headrace.loaders.contact_sheet.value_range import find_levels, shrink_to, size_in
from headrace.units import check_counts, check_integers

WIDTH: Final = 1280
"""Pixels of a sheet from left to right, at most."""
HEIGHT: Final = 4096
"""Pixels of its strips from top to bottom, at most."""
_MAX_COLUMNS: Final = 16
_MAX_SIDE: Final = 320
"""Pixels of the longer side of an image, at most."""

Position = tuple[int, ...]
"""Index of an image in a batch: (sample,), (sample, step), (slot, camera) or (window, step,
camera)."""
Caption = tuple[Sequence[str], Sequence[Mark]]
"""Lines below an image, and its marks."""


@dataclass(frozen=True, kw_only=True)
class SheetOptions:
    """Arguments of `show`; checked when created.

    Raises:
        ConfigError: a number is out of range.
    """

    samples: int | Sequence[int] | None = None
    """Number of samples, from the first on, or a list of samples; None: a default number."""
    frames: int = 8
    """Frames of each clip, at most, evenly from the first to the last."""
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_counts(1, _MAX_COLUMNS, frames=self.frames)

    def choose(self, count: int, default: int) -> list[int]:
        """Return the shown samples of `count`; at most `default` if none are given.

        Raises:
            ConfigError: a sample does not exist, or the list is empty.
        """
        samples: Any = default if self.samples is None else self.samples
        samples = samples.tolist() if hasattr(samples, "tolist") else samples  # array or tensor
        if isinstance(samples, Integral | str | bytes) or not isinstance(samples, Sequence):
            check_integers(1, samples=samples)
            return list(range(min(count, int(samples))))
        check_integers(0, **{f"samples[{k}]": sample for k, sample in enumerate(samples)})
        if not samples or max(samples) >= count:
            raise ConfigError(
                f"samples must be some of the {count} positions in the batch, from 0 on, got "
                f"{str([*samples])[:80]}"
            )
        return [int(sample) for sample in samples]


def spread(count: int, limit: int) -> list[int]:
    """Return at most `limit` of `count` indices, evenly from the first to the last."""
    if count <= limit:
        return list(range(count))
    return [round(k * (count - 1) / max(1, limit - 1)) for k in range(limit)]


def build_sheet(
    rows: Sequence[tuple[str, Sequence[Position]]],
    image_at: Callable[[Position], torch.Tensor],
    caption_at: Callable[[Position], Caption],
    summarise: Callable[[Sequence[Strip]], str],
    options: SheetOptions,
) -> ContactSheet:
    """Return a sheet of as many rows as fit its height.

    Args:
        rows: Heading and positions of each strip; at least one.
        image_at: Returns the image at a position, [C, H, W] with C 1 or 3.
        caption_at: Returns its caption.
        summarise: Returns the first line of the title, given the strips that fit.
        options: Mean and std of the images.

    Raises:
        ConfigError: mean or std is invalid.
    """
    side = min(_MAX_SIDE, (WIDTH - GAP) // max(len(positions) for _, positions in rows) - GAP)
    first = image_at(rows[0][1][0])
    rows = rows[: max(1, HEIGHT // (size_in(side, first)[0] + GAP))]
    images = [[shrink_to(side, image_at(position)) for position in row] for _, row in rows]
    shown = [image for row in images for image in row]
    levels = find_levels(shown, first.dtype, options.mean, options.std)
    strips = []
    for (heading, positions), row in zip(rows, images, strict=True):
        cells = []
        for position, image in zip(positions, row, strict=True):
            lines, marks = caption_at(position)
            cell_image = levels.to_uint8(image, side)
            cells.append(
                Cell(image=cell_image, lines=tuple(filter(None, lines)), marks=tuple(marks))
            )
        strips.append(Strip(heading=heading, cells=tuple(cells)))
    ends = accumulate(map(strip_height, strips))
    fitting = tuple(strip for strip, end in zip(strips, ends, strict=True) if end <= HEIGHT)
    return ContactSheet(title=(summarise(fitting), *filter(None, [levels.note])), strips=fitting)
