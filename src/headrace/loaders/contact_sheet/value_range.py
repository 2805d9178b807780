"""From the values of a tensor of pictures, whatever was made of them, to bytes to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from headrace.errors import ConfigError

_NEARLY = 1e-3
"""By so much resizing in floats may leave [0, 1]."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """How values become [0, 255]: (value - low) / (high - low), by channel or for all."""

    low: torch.Tensor
    """float32 [C, 1, 1], or a scalar: what is black."""
    high: torch.Tensor
    """Likewise: what is white."""
    note: str = ""
    """What a reader must know of it; empty where pictures are shown as they are."""

    def picture(self, values: torch.Tensor, room: int) -> NDArray[np.uint8]:
        """Return what `fitted` gave, [C, h, w] with C 1 or 3, as uint8 [h, w, 3], to draw.

        Small pictures become a whole number of times larger, by repeating. What is no number
        becomes black, what is without end black or white.
        """
        scaled = (values - self.low) / (self.high - self.low) * 255
        scaled = scaled.nan_to_num(0.0, 255.0, 0.0).clamp(0, 255).round().to(torch.uint8)
        grow = max(1, size_in(room, values)[0] // values.shape[-2])
        array = scaled.expand(3, -1, -1).permute(1, 2, 0).numpy()
        return np.ascontiguousarray(array.repeat(grow, 0).repeat(grow, 1))


def fitted(picture: torch.Tensor, room: int) -> torch.Tensor:
    """Return the values of a picture [C, H, W] as float32 on the CPU, no side longer than `room`.

    A larger one becomes smaller where it lies, by the mean; others stay as they are.
    """
    values, size = picture.float(), size_in(room, picture)
    if size[0] < values.shape[-2] or size[1] < values.shape[-1]:
        values = interpolate(values[None], size, mode="area")[0]
    return values.cpu()


def size_in(room: int, picture: torch.Tensor) -> tuple[int, int]:
    """Return the (height, width) that a picture [C, H, W] is shown in, in a square of `room`."""
    height, width = picture.shape[-2:]
    longer = max(height, width)
    if longer <= room:
        return height * (room // longer), width * (room // longer)
    return max(1, height * room // longer), max(1, width * room // longer)


def levels_of(
    pictures: Sequence[torch.Tensor],
    kind: torch.dtype,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Levels:
    """Return how values are brought back to what a screen shows.

    Args:
        pictures: All that are shown, at least one, as `fitted` gave them.
        kind: What they were before.
        mean: Of each channel, as it was taken off pictures in [0, 1]; None: nothing was.
        std: Of each channel, as they were divided by it.

    Raises:
        ConfigError: only one of mean and std is given, or it is not of one number or C of them.
    """
    if (mean is None) != (std is None):
        raise ConfigError("mean and std bring pictures back together; give both, or neither")
    if mean is not None and std is not None:
        centre, spread = (_by_channel(each, len(pictures[0])) for each in (mean, std))
        if not bool((spread > 0).all()):
            raise ConfigError(f"std must be above 0, got {std}")
        return Levels(low=-centre / spread, high=(1 - centre) / spread, note="mean and std undone")
    if kind in (torch.uint8, torch.uint16):
        return _between(0, 255 if kind == torch.uint8 else 65535)
    shown = torch.cat([each.flatten() for each in pictures])
    is_number = shown.isfinite()
    low, high = map(float, shown[is_number].aminmax()) if is_number.any() else (0.0, 1.0)
    lost = "" if is_number.all() else "some values are no numbers, shown black or white; "
    if low >= -_NEARLY and high <= 255 + _NEARLY:
        return _between(0, 1 if high <= 1 + _NEARLY else 255, lost.removesuffix("; "))
    stretched = f"values from {low:.2f} (black) to {high:.2f} (white); "
    return _between(
        low, max(high, low + _NEARLY), f"{lost}{stretched}give mean and std for colours"
    )


def _between(low: float, high: float, note: str = "") -> Levels:
    return Levels(low=torch.tensor(low), high=torch.tensor(high), note=note)


def _by_channel(values: Sequence[float], channels: int) -> torch.Tensor:
    try:
        found = torch.as_tensor(values, dtype=torch.float32).reshape(-1)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"mean and std must be numbers, got {values!r}") from error
    if not bool(found.isfinite().all()):
        raise ConfigError(f"mean and std must be numbers, got {values!r}")
    if len(found) not in (1, channels):
        raise ConfigError(f"mean and std must have {channels} numbers or one, got {len(found)}")
    return found.reshape(-1, 1, 1)


_COLOURS = (1, 3)
_ASKED = "frames of a batch are shown as pictures [N, 3, H, W] or clips [N, T, 3, H, W]"


def pictures_of(frames: Any, is_clips: bool | None) -> torch.Tensor:
    """Return frames as [N, C, H, W], or [N, T, C, H, W] of clips, C 1 or 3; a view.

    Also taken: colour last, and clips [N, C, T, H, W] as 3-D networks have them.

    Args:
        frames: Of a batch.
        is_clips: Whether the samples are clips, where that is known.

    Raises:
        ConfigError: they are none of this, or there are none.
    """
    if not isinstance(frames, torch.Tensor):
        raise ConfigError(f"{_ASKED}, got {type(frames).__name__}; show them before that")
    if frames.ndim not in (4, 5) or is_clips not in (None, frames.ndim == 5):
        raise ConfigError(f"{_ASKED}, got {[*frames.shape]}; show them before the transform")
    shape = frames.shape
    if 0 in shape or frames.is_complex():
        raise ConfigError(f"{_ASKED}, got {frames.dtype} {[*shape]}, which shows nothing")
    if shape[-3] in _COLOURS:
        return frames.detach()
    if frames.ndim == 5 and shape[1] in _COLOURS:
        return frames.detach().transpose(1, 2)
    if shape[-1] in _COLOURS:
        return frames.detach().movedim(-1, -3)
    raise ConfigError(f"{_ASKED}, got {[*shape]}, which has no dimension of 3 colours, or 1")
