"""Three levels of preprocessing: decoded frames to the input tensor of a model."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.preprocess.operations import operations
from headrace.preprocess.spec import InputSpec, PrepLevel

Frames = NDArray[np.uint8] | torch.Tensor
"""uint8 RGB: frames [N, H, W, 3], or clips [N, T, H, W, 3]; arrays are on the CPU."""
Preprocess = Callable[[Frames], torch.Tensor]
"""Frames -> normalised float32 [N, 3, h, w], for clips [N, 3, T, h, w], on the same device."""


def build_preprocess(level: PrepLevel, spec: InputSpec) -> Preprocess:
    """Return the preprocessing function of a model; it runs on the device of the frames.

    - `simple`: resize to the input size, aspect ratio not kept; normalise.
    - `medium`: the preset of the weights: resize the short side, crop the centre, normalise. The
      result is within one grey level (two for bicubic) of torchvision's preset. That preset resizes
      in float32 and rounds, at six times the cost (3.8 instead of 0.6 ms for a 640x272 frame on two
      cores).
    - `complex`: the steps of a camera pipeline, then `medium`. The steps are a Gaussian blur 5x5
      (denoising), a stretch of each channel to the full range, and sharpening by 1.5.

    All levels are deterministic. A GPU resizes in float32 and rounds, as torchvision's preset does.
    For a frame of "bikes", GPU and CPU differ by at most one grey level (three for bicubic), 0.13
    on average. `complex` also blurs in float32 and stretches the rounding difference: at most four.

    Frames of a clip are preprocessed as single frames. For a model without an input size, no level
    resizes or crops.

    Raises:
        ConfigError: the level does not exist; in a call: frames have another shape or dtype.
    """
    steps = operations(level, spec)

    def preprocess(frames: Frames) -> torch.Tensor:
        batch = torch.from_numpy(frames) if isinstance(frames, np.ndarray) else frames
        _check(batch, spec)
        images = batch.flatten(0, -4).permute(0, 3, 1, 2)
        for step in steps:
            images = step.apply(images)
        if spec.num_frames is None:
            return images
        return images.reshape(*batch.shape[:2], *images.shape[1:]).transpose(1, 2)

    return preprocess


def _check(batch: torch.Tensor, spec: InputSpec) -> None:
    dimensions = "[N, H, W, 3]" if spec.num_frames is None else "[N, T, H, W, 3]"
    ndim = dimensions.count(",") + 1
    if batch.ndim != ndim or batch.shape[-1] != 3 or batch.dtype != torch.uint8:
        kind = "single frames" if spec.num_frames is None else "clips"
        raise ConfigError(
            f"this model takes {kind}, uint8 {dimensions}; "
            f"got {str(batch.dtype).removeprefix('torch.')} {list(batch.shape)}"
        )
