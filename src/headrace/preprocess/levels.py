"""Three levels of preprocessing: from decoded frames to the tensor a classifier takes."""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as ops

from headrace.errors import ConfigError
from headrace.preprocess.spec import InputSpec

PrepLevel = Literal["simple", "medium", "complex"]
Preprocess = Callable[[NDArray[np.uint8]], torch.Tensor]
"""uint8 [N, H, W, 3] RGB -> float32 [N, 3, h, w], normalised; copies once, to resize."""


def build_preprocess(level: PrepLevel, spec: InputSpec) -> Preprocess:
    """Return the preprocessing of a model, on the CPU.

    - `simple`: resize to the input's size, aspect not kept, and normalise.
    - `medium`: what the weights were evaluated with: resize the short side, cut the centre,
      normalise. Within one grey level (two where it is bicubic) of torchvision's own preset,
      which resizes in float32 and then rounds, at six times the cost (0.6 against 3.8 ms for a
      640x272 frame, two cores).
    - `complex`: before the above, work as camera pipelines do it: Gaussian blur 5x5 (denoising),
      each channel of a frame stretched to the full range, sharpening by 1.5. Deterministic.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in get_args(PrepLevel):
        raise ConfigError(f"prep_level is {level!r}; there is {', '.join(get_args(PrepLevel))}")
    interpolation = InterpolationMode(spec.interpolation)

    def resized(frames: torch.Tensor) -> torch.Tensor:
        if level == "simple":
            return ops.resize(frames, [spec.crop, spec.crop], interpolation, antialias=True)
        if level == "complex":
            frames = ops.gaussian_blur(frames, [5, 5])
            frames = ops.adjust_sharpness(ops.autocontrast(frames), 1.5)
        frames = ops.resize(frames, [spec.resize], interpolation, antialias=True)
        return ops.center_crop(frames, [spec.crop, spec.crop])

    def preprocess(frames: NDArray[np.uint8]) -> torch.Tensor:
        batch = torch.from_numpy(frames).permute(0, 3, 1, 2)
        scaled = ops.to_dtype(resized(batch), torch.float32, scale=True)
        return ops.normalize(scaled, list(spec.mean), list(spec.std))

    return preprocess
