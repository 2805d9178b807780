"""SheetOptions: which samples of a batch to show, and their images as a grid of uint8."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from numbers import Integral
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from headrace.errors import ConfigError
from headrace.loaders.contact_sheet.contact_sheet import (
    GAP,
    Cell,
    ContactSheet,
    Mark,
    Strip,
    strip_height,
)
from headrace.units import check_counts, check_integers

_ROUNDING = 1e-3
"""Rounding error by which resized floats may exceed [0, 1] or [0, 255]."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Map from values to [0, 255]: (value - low) / (high - low) * 255, per channel or for all."""

    low: torch.Tensor
    """float32 [C, 1, 1], or a scalar: value of black."""
    high: torch.Tensor
    """float32 [C, 1, 1], or a scalar: value of white."""
    note: str = ""
    """Note for the title; empty if values are shown as they are."""

    def to_uint8(self, values: torch.Tensor, side: int) -> NDArray[np.uint8]:
        """Return an image of `shrink_to`, [C, h, w] with C 1 or 3, as uint8 [h, w, 3].

        Small images are enlarged by an integer factor, by repeating pixels. NaN becomes black, and
        infinity black or white.
        """
        scaled = (values - self.low) / (self.high - self.low) * 255
        scaled = scaled.nan_to_num(0.0, 255.0, 0.0).clamp(0, 255).round().to(torch.uint8)
        factor = max(1, size_in(side, values)[0] // values.shape[-2])
        array = scaled.expand(3, -1, -1).permute(1, 2, 0).numpy()
        return np.ascontiguousarray(array.repeat(factor, 0).repeat(factor, 1))


def shrink_to(side: int, image: torch.Tensor) -> torch.Tensor:
    """Return an image [C, H, W] as float32 on the CPU, with sides of at most `side` pixels.

    A larger image is averaged down on its device; a smaller one keeps its size.
    """
    values, size = image.float(), size_in(side, image)
    if size[0] < values.shape[-2] or size[1] < values.shape[-1]:
        values = interpolate(values[None], size, mode="area")[0]
    return values.cpu()


def size_in(side: int, image: torch.Tensor) -> tuple[int, int]:
    """Return the (height, width) at which an image [C, H, W] is shown in a square of `side`."""
    height, width = image.shape[-2:]
    longer = max(height, width)
    if longer <= side:
        return height * (side // longer), width * (side // longer)
    return max(1, height * side // longer), max(1, width * side // longer)


def find_levels(
    images: Sequence[torch.Tensor],
    dtype: torch.dtype,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Levels:
    """Return the levels that undo a normalization, or that fit the range of the values.

    Args:
        images: All shown images, at least one, as `shrink_to` returned them.
        dtype: Their dtype before `shrink_to`.
        mean: Mean of each channel that was subtracted from images in [0, 1]; None: not normalized.
        std: Standard deviation of each channel that they were divided by.

    Raises:
        ConfigError: only one of mean and std is given, or one has neither 1 nor C numbers.
    """
    if (mean is None) != (std is None):
        raise ConfigError("mean and std undo a normalization together; give both or neither")
    if mean is not None and std is not None:
        center, scale = (_per_channel(values, len(images[0])) for values in (mean, std))
        if not bool((scale > 0).all()):
            raise ConfigError(f"std must be above 0, got {std}")
        return Levels(low=-center / scale, high=(1 - center) / scale, note="mean and std undone")
    if dtype in (torch.uint8, torch.uint16):
        return _levels(0, 255 if dtype == torch.uint8 else 65535)
    values = torch.cat([image.flatten() for image in images])
    is_finite = values.isfinite()
    low, high = map(float, values[is_finite].aminmax()) if is_finite.any() else (0.0, 1.0)
    note = "" if is_finite.all() else "values that are not finite are black or white; "
    if low >= -_ROUNDING and high <= 255 + _ROUNDING:
        return _levels(0, 1 if high <= 1 + _ROUNDING else 255, note.removesuffix("; "))
    note += f"values from {low:.2f} (black) to {high:.2f} (white); give mean and std for colors"
    return _levels(low, max(high, low + _ROUNDING), note)


def _levels(low: float, high: float, note: str = "") -> Levels:
    return Levels(low=torch.tensor(low), high=torch.tensor(high), note=note)


def _per_channel(values: Sequence[float], channels: int) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(values, dtype=torch.float32).reshape(-1)
        is_finite = bool(tensor.isfinite().all())
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"mean and std must be numbers, got {values!r}") from error
    if not is_finite:
        raise ConfigError(f"mean and std must be numbers, got {values!r}")
    if len(tensor) not in (1, channels):
        raise ConfigError(f"mean and std must have {channels} numbers or one, got {len(tensor)}")
    return tensor.reshape(-1, 1, 1)


_CHANNELS = (1, 3)
_EXPECTED = "frames of a batch must be images [N, 3, H, W] or clips [N, T, 3, H, W]"


def images_of(frames: Any, is_clips: bool | None) -> torch.Tensor:
    """Return frames as [N, C, H, W], or clips as [N, T, C, H, W], C 1 or 3; a view.

    Also accepts channels-last frames, and clips [N, C, T, H, W] as for 3-D networks.

    Args:
        frames: Entry `frames` of a batch.
        is_clips: Whether the samples are clips; None: unknown.

    Raises:
        ConfigError: the frames have another shape, or are empty.
    """
    if not isinstance(frames, torch.Tensor):
        raise ConfigError(
            f"{_EXPECTED}, got {type(frames).__name__}; show them before the transform"
        )
    if frames.ndim not in (4, 5) or is_clips not in (None, frames.ndim == 5):
        raise ConfigError(f"{_EXPECTED}, got {[*frames.shape]}; show them before the transform")
    shape = frames.shape
    if 0 in shape or frames.is_complex():
        raise ConfigError(f"{_EXPECTED}, got {frames.dtype} {[*shape]}, which cannot be shown")
    if shape[-3] in _CHANNELS:
        return frames.detach()
    if frames.ndim == 5 and shape[1] in _CHANNELS:
        return frames.detach().transpose(1, 2)
    if shape[-1] in _CHANNELS:
        return frames.detach().movedim(-1, -3)
    raise ConfigError(f"{_EXPECTED}, got {[*shape]}, which has no dimension of 3 or 1 channels")


WIDTH: Final = 1280
"""Max width of a sheet, in pixels."""
HEIGHT: Final = 4096
"""Max height of its strips, in pixels."""
_MAX_COLUMNS: Final = 16
"""Max frames shown per clip."""
_MAX_SIDE: Final = 320
"""Max pixels of an image's longer side."""

Position = tuple[int, ...]
"""Index of an image in a batch: (sample,), (sample, step), (slot, camera) or (window, step,
camera)."""
Caption = tuple[Sequence[str], Sequence[Mark]]
"""Lines below an image, and its marks."""


@dataclass(frozen=True, kw_only=True)
class BatchNames:
    """Names for captions. A batch that a trainer rebuilt has none; its captions show numbers."""

    videos: tuple[str, ...] = ()
    """File of each sample, or its camera clip."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of text labels → names of its classes."""
    cameras: tuple[str, ...] = ()
    """Camera names, in the order of the batch."""


@dataclass(frozen=True, kw_only=True)
class SheetOptions:
    """Arguments of `show`; checked when created.

    Raises:
        ConfigError: a number is out of range.
    """

    samples: int | Sequence[int] | None = None
    """Number of samples from the first on, or a list of samples; None: a default number."""
    frames: int = 8
    """Max frames per clip, evenly from the first to the last."""
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_counts(1, _MAX_COLUMNS, frames=self.frames)

    def choose(self, count: int, default: int) -> list[int]:
        """Return the positions of the samples to show among `count`; the first `default` if None.

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
                f"samples must be positions in the batch, from 0 to {count - 1}, got "
                f"{str([*samples])[:80]}"
            )
        return [int(sample) for sample in samples]


def evenly_spaced(count: int, limit: int) -> list[int]:
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
    """Return a sheet with as many rows as fit its height.

    Args:
        rows: Heading and positions of each strip; at least one.
        image_at: Returns the image at a position, [C, H, W] with C 1 or 3.
        caption_at: Returns the caption at a position.
        summarise: Returns the first line of the title, from the strips that fit.
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
