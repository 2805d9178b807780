"""Feature model: from decoded frames to model input, and from model output to arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headrace.errors import BackendError, ConfigError, first_line, in_words
from headrace.extraction.features.model_spec import Numerics, OwnModel
from headrace.extraction.features.own_state import OwnState, own_state
from headrace.models.compute import Compute
from headrace.models.device import is_out_of_memory
from headrace.models.evaluation_mode import evaluation_mode
from headrace.models.model import Model, place_model
from headrace.models.outputs import describe_value
from headrace.preprocess.spec import InputSpec
from headrace.units import check_integers

if TYPE_CHECKING:  # it imports torchvision
    from headrace.preprocess.levels import Preprocess


def build_own_model(spec: OwnModel) -> Any:
    """Import and call the user's function; return its model: uint8 [N, 3, H, W], or clips
    [N, 3, T, H, W] -> a tensor [N, ...].

    Raises:
        ConfigError: the function cannot be found, fails, or does not return a callable.
    """
    module, _, name = spec.build.partition(":")
    try:
        build = getattr(import_module(module), name)
    except Exception as error:
        raise ConfigError(
            f"cannot import {spec.build}: {in_words(error)}; give module:function, as Python finds "
            "it from here (PYTHONPATH=. for a file in this folder)"
        ) from error
    try:
        call = build()
    except Exception as error:
        raise ConfigError(f"{spec.build}() failed: {in_words(error)}") from error
    if not callable(call):
        raise ConfigError(
            f"{spec.build} must return a callable, such as an nn.Module, got {type(call).__name__}"
        )
    return call


def _pair(name: str, size: Any) -> tuple[int, int]:
    if not (isinstance(size, tuple | list) and len(size) == 2):
        raise ConfigError(f"size of {name} must be (height, width), got {size!r}")
    check_integers(1, height=size[0], width=size[1])
    return int(size[0]), int(size[1])


PROBED_SIZE = (224, 320)
"""(height, width) of the frame that probes models of any input size for their feature shape."""
_AS_THEY_ARE = InputSpec(
    resize=None, crop=None, mean=(0.0,) * 3, std=(1.0,) * 3, interpolation="bilinear"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureModel:
    """Model on its device. Not thread-safe: one batch at a time."""

    model: Model[torch.Tensor]
    """Returns features [N, ...]; its `run` leaves them on the device."""
    layer: str
    """Layer of the features; empty for a custom model."""
    prepare: "Preprocess"
    """uint8 [k, H, W, 3] on the device -> model input of each frame, [k, 3, h, w]."""
    size: tuple[int, int] | None
    """(height, width) of decoded frames; None: each video's size."""
    numerics: Numerics
    weighted: nn.Module | None
    """Module with the weights, without wrappers; None: the model is not a module."""
    version: str | None = None
    """Attribute `version` of a custom model."""
    state: OwnState | None = None
    """Attributes of a custom module, before its first run; None: the model is not a custom
    module."""

    def probe(self, num_frames: int | None) -> tuple[int, ...]:
        """Return the shape of one feature, from a run on zeros, which also sets up the model.

        Args:
            num_frames: Frames of a clip; None: samples are frames.

        Raises:
            ConfigError: see `run`.
            BackendError: the model cannot run on its device.
        """
        batch = self.example(num_frames, PROBED_SIZE)
        try:
            return self.run(batch).shape[1:]
        except RuntimeError as error:
            raise BackendError(
                f"{self.model.name} cannot run on {self.numerics.device}: "
                f"{first_line(error)}; "
                "use a smaller model or another --device"
            ) from error

    def example(self, num_frames: int | None, size: tuple[int, int]) -> torch.Tensor:
        """Return a batch of one sample, of black frames decoded in `size`."""
        device = self.model.compute.device
        frames = torch.zeros((1, *(self.size or size), 3), dtype=torch.uint8, device=device)
        batch = self.prepare(frames)
        if num_frames is None:
            return batch
        return batch[:, :, None].expand(-1, -1, num_frames, -1, -1)

    def seen(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) of the model input for frames decoded in `size`."""
        crop = self.model.input.crop
        return size if crop is None else (crop, crop)

    def run(self, batch: torch.Tensor) -> NDArray[Any]:
        """Return the features of a batch, float32 or float16 [N, ...], on the CPU.

        Raises:
            ConfigError: the model does not return one row per sample.
        """
        with evaluation_mode(self.weighted):
            features = self.model.run(batch)
        is_tensor = isinstance(features, torch.Tensor) and features.ndim > 0
        if not is_tensor or len(features) != len(batch):
            raise ConfigError(
                f"{self.model.name} must return a tensor [{len(batch)}, ...], one row per sample, "
                f"got {describe_value(features)}"
            )
        dtype = torch.float16 if self.numerics.dtype == "float16" else torch.float32
        array: NDArray[Any] = features.to(dtype).cpu().numpy()
        return array


def custom_feature_model(spec: OwnModel, numerics: Numerics, compute: Compute) -> FeatureModel:
    """Return the model of the user's function on its device. Raises as `build_own_model` does."""
    call = build_own_model(spec)
    module = call if isinstance(call, nn.Module) else None
    size, version = getattr(call, "size", None), getattr(call, "version", None)
    loaded: Model[torch.Tensor] = Model(
        name=spec.build,
        module=_Guarded(call, spec.build),
        input=_AS_THEY_ARE,
        output=lambda features: features,
        origin=spec.build,
    )
    return FeatureModel(
        model=place_model(loaded, compute),
        layer="",
        prepare=_channels_first,
        size=None if size is None else _pair(spec.build, size),
        numerics=numerics,
        weighted=module,
        version=version if isinstance(version, str) else None,
        state=None if module is None else own_state(module),
    )


class _Guarded(nn.Module):
    """Wrapper of a custom model that names it in errors."""

    def __init__(self, call: Callable[[Any], Any], name: str) -> None:
        super().__init__()
        self.call, self.name = call, name

    def forward(self, batch: torch.Tensor) -> Any:
        try:
            return self.call(batch)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise ConfigError(
                f"{self.name} failed on uint8 {list(batch.shape)}: {in_words(error)}"
            ) from error


def _channels_first(frames: Any) -> torch.Tensor:
    batch: torch.Tensor = torch.from_numpy(frames) if isinstance(frames, np.ndarray) else frames
    return batch.permute(0, 3, 1, 2)
