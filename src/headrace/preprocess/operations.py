"""The operations of each level of preprocessing, as a list that can be read as well as run."""

from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as ops

from headrace.errors import ConfigError
from headrace.preprocess.spec import InputSpec, PrepLevel


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of preprocessing. The same on the CPU and on a GPU; it draws nothing at random."""

    name: str
    """What it does, in words."""
    apply: "partial[torch.Tensor]"
    """Tensor [N, 3, H, W] -> tensor [N, 3, h, w], on the same device: a function of
    torchvision.transforms.v2.functional with its settings."""

    @property
    def call(self) -> str:
        """Return the function and its settings as they are written in Python."""
        settings = ", ".join(f"{name}={_plain(v)}" for name, v in self.apply.keywords.items())
        return f"{self.apply.func.__name__}({settings})"


def operations(level: PrepLevel, spec: InputSpec) -> tuple[Operation, ...]:
    """Return what a level does to uint8 [N, 3, H, W], in order; float32 comes out.

    Raises:
        ConfigError: there is no such level.
    """
    match level:
        case "simple":
            return (*_squeezing(spec), *_scaling(spec))
        case "medium":
            return (*_cutting(spec), *_scaling(spec))
        case "complex":
            return (*_camera(), *_cutting(spec), *_scaling(spec))
    raise ConfigError(f"prep_level is {level!r}; there is {', '.join(get_args(PrepLevel))}")


def _plain(value: object) -> str:
    """Return a setting as text; of an enumeration the value, which torchvision takes as well."""
    return repr(value.value if isinstance(value, InterpolationMode) else value)


def _camera() -> tuple[Operation, ...]:
    return (
        Operation(name="blur, Gaussian 5x5", apply=partial(ops.gaussian_blur, kernel_size=[5, 5])),
        Operation(name="stretch each channel to the full range", apply=partial(ops.autocontrast)),
        Operation(name="sharpen by 1.5", apply=partial(ops.adjust_sharpness, sharpness_factor=1.5)),
    )


def _squeezing(spec: InputSpec) -> tuple[Operation, ...]:
    if spec.crop is None:
        return ()
    return (_resize(f"{spec.crop}x{spec.crop}, aspect not kept", [spec.crop, spec.crop], spec),)


def _cutting(spec: InputSpec) -> tuple[Operation, ...]:
    if spec.resize is None or spec.crop is None:
        return ()
    size = [spec.resize] if isinstance(spec.resize, int) else list(spec.resize)
    side = spec.crop
    return (
        _resize(
            "x".join(map(str, size)) + (", the short side" if len(size) == 1 else ""), size, spec
        ),
        Operation(
            name=f"cut the centre, {side}x{side}",
            apply=partial(ops.center_crop, output_size=[side, side]),
        ),
    )


def _resize(to: str, size: list[int], spec: InputSpec) -> Operation:
    smooth = "antialiased" if spec.antialias else "not antialiased"
    return Operation(
        name=f"resize to {to} ({spec.interpolation}, {smooth})",
        apply=partial(
            ops.resize,
            size=size,
            interpolation=InterpolationMode(spec.interpolation),
            antialias=spec.antialias,
        ),
    )


def _scaling(spec: InputSpec) -> tuple[Operation, ...]:
    scale = Operation(
        name="scale to 0..1", apply=partial(ops.to_dtype, dtype=torch.float32, scale=True)
    )
    if set(spec.mean) == {0} and set(spec.std) == {1}:
        return (scale,)
    mean, std = list(spec.mean), list(spec.std)
    return (
        scale,
        Operation(
            name=f"normalise by mean {mean} and std {std}",
            apply=partial(ops.normalize, mean=mean, std=std),
        ),
    )
