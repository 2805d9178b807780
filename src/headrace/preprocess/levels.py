"""Three levels of preprocessing: from decoded frames to the tensor a model takes."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.preprocess.operations import operations
from headrace.preprocess.spec import InputSpec, PrepLevel

Frames = NDArray[np.uint8] | torch.Tensor
"""uint8 RGB: pictures [N, H, W, 3], or clips [N, T, H, W, 3]; an array lies on the CPU."""
Preprocess = Callable[[Frames], torch.Tensor]
"""Frames -> float32 [N, 3, h, w], for clips [N, 3, T, h, w], where the frames lie; normalised."""


def build_preprocess(level: PrepLevel, spec: InputSpec) -> Preprocess:
    """Return the preprocessing of a model; it runs where the frames lie.

    - `simple`: resize to the input's size, aspect not kept, and normalise.
    - `medium`: what the weights were evaluated with: resize the short side, cut the centre,
      normalise. Within one grey level (two where it is bicubic) of torchvision's own preset,
      which resizes in float32 and then rounds, at six times the cost (0.6 against 3.8 ms for a
      640x272 frame, two cores).
    - `complex`: before the above, work as camera pipelines do it: Gaussian blur 5x5 (denoising),
      each channel of a frame stretched to the full range, sharpening by 1.5. Deterministic.

    A GPU resizes in float32 and rounds, as torchvision's preset does. By that way, gone on the CPU,
    a frame of "bikes" is at most one grey level off, three where it is bicubic, 0.13 in the mean;
    `complex` blurs in float32 as well, and stretches what rounding makes of it: four.

    A picture of a clip becomes what it becomes alone. For a model that takes pictures as they are
    no level resizes or cuts.

    Raises:
        ConfigError: there is no such level; later, frames of another shape or dtype.
    """
    steps = operations(level, spec)

    def preprocess(frames: Frames) -> torch.Tensor:
        batch = torch.from_numpy(frames) if isinstance(frames, np.ndarray) else frames
        _check(batch, spec)
        pictures = batch.flatten(0, -4).permute(0, 3, 1, 2)
        for step in steps:
            pictures = step.apply(pictures)
        if spec.num_frames is None:
            return pictures
        return pictures.reshape(*batch.shape[:2], *pictures.shape[1:]).transpose(1, 2)

    return preprocess


def _check(batch: torch.Tensor, spec: InputSpec) -> None:
    dimensions = "[N, H, W, 3]" if spec.num_frames is None else "[N, T, H, W, 3]"
    ndim = dimensions.count(",") + 1
    if batch.ndim != ndim or batch.shape[-1] != 3 or batch.dtype != torch.uint8:
        kind = "single pictures" if spec.num_frames is None else "clips"
        raise ConfigError(
            f"this model takes {kind}, uint8 {dimensions}; "
            f"got {str(batch.dtype).removeprefix('torch.')} {list(batch.shape)}"
        )
