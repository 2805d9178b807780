"""Three levels of preprocessing: decoded frames to the input tensor of a model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
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


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One deterministic preprocessing step, for CPU and GPU."""

    name: str
    """Description, for tables."""
    apply: "partial[torch.Tensor]"
    """Function of torchvision.transforms.v2.functional with its settings: tensor [N, 3, H, W] ->
    tensor [N, 3, h, w] on the same device."""

    @property
    def call(self) -> str:
        """Return the function call as Python source."""
        settings = ", ".join(f"{name}={_python_text(v)}" for name, v in self.apply.keywords.items())
        return f"{self.apply.func.__name__}({settings})"


def operations(level: PrepLevel, spec: InputSpec) -> tuple[Operation, ...]:
    """Return the operations of a level, in order: uint8 [N, 3, H, W] to float32.

    Raises:
        ConfigError: the level does not exist.
    """
    match level:
        case "simple":
            return (*_resize_to_square(spec), *_normalise(spec))
        case "medium":
            return (*_resize_and_crop(spec), *_normalise(spec))
        case "complex":
            return (*_camera_steps(), *_resize_and_crop(spec), *_normalise(spec))
    raise ConfigError(f"prep_level must be one of {', '.join(get_args(PrepLevel))}, got {level!r}")


def _python_text(value: object) -> str:
    """Return a setting as Python source; torchvision also accepts the value of its enumeration."""
    return repr(getattr(value, "value", value))


def _operation(name: str, function: str, **settings: Any) -> Operation:
    """Return a step by a function of torchvision, which is imported here: 1.3 s of a core."""
    from torchvision.transforms.v2 import functional

    return Operation(name=name, apply=partial(getattr(functional, function), **settings))


def _camera_steps() -> tuple[Operation, ...]:
    return (
        _operation("blur, Gaussian 5x5", "gaussian_blur", kernel_size=[5, 5]),
        _operation("stretch each channel to the full range", "autocontrast"),
        _operation("sharpen by 1.5", "adjust_sharpness", sharpness_factor=1.5),
    )


def _resize_to_square(spec: InputSpec) -> tuple[Operation, ...]:
    if spec.crop is None:
        return ()
    return (_resize(f"{spec.crop}x{spec.crop}, aspect not kept", [spec.crop, spec.crop], spec),)


def _resize_and_crop(spec: InputSpec) -> tuple[Operation, ...]:
    if spec.resize is None or spec.crop is None:
        return ()
    size = [spec.resize] if isinstance(spec.resize, int) else list(spec.resize)
    side = spec.crop
    to = "x".join(map(str, size)) + (", the short side" if len(size) == 1 else "")
    cut = _operation(f"cut the centre, {side}x{side}", "center_crop", output_size=[side, side])
    return (_resize(to, size, spec), cut)


def _resize(to: str, size: list[int], spec: InputSpec) -> Operation:
    from torchvision.transforms.v2 import InterpolationMode

    smooth = "antialiased" if spec.antialias else "not antialiased"
    mode = InterpolationMode(spec.interpolation)
    name = f"resize to {to} ({spec.interpolation}, {smooth})"
    return _operation(name, "resize", size=size, interpolation=mode, antialias=spec.antialias)


def _normalise(spec: InputSpec) -> tuple[Operation, ...]:
    scale = _operation("scale to 0..1", "to_dtype", dtype=torch.float32, scale=True)
    if set(spec.mean) == {0} and set(spec.std) == {1}:
        return (scale,)
    mean, std = list(spec.mean), list(spec.std)
    name = f"normalise by mean {mean} and std {std}"
    return (scale, _operation(name, "normalize", mean=mean, std=std))
