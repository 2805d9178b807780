"""The pictures of a batch, whatever transforms made of their dimensions."""

from typing import Any

import torch

from headrace.errors import ConfigError

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
