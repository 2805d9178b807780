"""Feature model: from decoded frames to model input, and from model output to arrays."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headrace.errors import BackendError, ConfigError, first_line, in_words
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import (
    FeatureModelSpec,
    Numerics,
    OwnModel,
    Sampling,
    TorchvisionModelSpec,
)
from headrace.extraction.features.own_state import OwnState, own_state
from headrace.models.catalogue import task_of
from headrace.models.checkpoint import weights_digest
from headrace.models.compute import Compute
from headrace.models.evaluation_mode import evaluation_mode
from headrace.models.feature_extractor import FeatureExtractor
from headrace.models.gpu_memory import is_out_of_memory
from headrace.models.head import HeadTap
from headrace.models.load import with_clip_length
from headrace.models.load_weights import with_weights
from headrace.models.model import Model
from headrace.models.precision_support import check_available
from headrace.models.prepare import placed
from headrace.models.value_words import value_words
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.preprocess.spec import InputSpec
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomModel:
    """Model returned by the user's function."""

    name: str
    """"package.module:function"."""
    call: Callable[[Any], Any]
    """uint8 [N, 3, H, W], or clips [N, 3, T, H, W] -> a tensor [N, ...]."""
    size: tuple[int, int] | None
    """(height, width) of its input frames; None: each video's size."""
    version: str | None
    """Its attribute `version`; None: not set."""


def own_model(spec: OwnModel) -> CustomModel:
    """Import and call the user's function.

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
        raise ConfigError(
            f"{spec.build} failed when it was called without arguments: {in_words(error)}"
        ) from error
    if not callable(call):
        raise ConfigError(
            f"{spec.build} must return a model, such as an nn.Module; got {type(call).__name__}"
        )
    size, version = getattr(call, "size", None), getattr(call, "version", None)
    return CustomModel(
        name=spec.build,
        call=call,
        size=None if size is None else _pair(spec.build, size),
        version=version if isinstance(version, str) else None,
    )


def _pair(name: str, size: Any) -> tuple[int, int]:
    if not (isinstance(size, tuple | list) and len(size) == 2):
        raise ConfigError(f"size of {name} must be (height, width), got {size!r}")
    check_integers(1, height=size[0], width=size[1])
    return int(size[0]), int(size[1])


PROBED_SIZE = (224, 320)
"""(height, width) of the frame to probe the shape of features of models that take any size."""
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
    prepare: Preprocess
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
        if not isinstance(features, torch.Tensor) or features.ndim < 1:
            raise ConfigError(
                f"{self.model.name} must give a tensor [{len(batch)}, ...], a row for each sample; "
                f"got {value_words(features)}"
            )
        if len(features) != len(batch):
            raise ConfigError(
                f"{self.model.name} must give a row for each of {len(batch)} samples, a tensor "
                f"[{len(batch)}, ...]; got {value_words(features)}"
            )
        dtype = torch.float16 if self.numerics.dtype == "float16" else torch.float32
        array: NDArray[Any] = features.to(dtype).cpu().numpy()
        return array


def load_feature_model(
    spec: FeatureModelSpec,
    sampling: Sampling,
    numerics: Numerics,
    facts: ModelSignature | None = None,
) -> FeatureModel:
    """Load a model onto its device.

    Args:
        spec: Model.
        sampling: Samples of the model.
        numerics: Device and precision.
        facts: Signature of an earlier load, to compare the weights with; reads 1 GB a second.

    Raises:
        ConfigError: the model, layer or function is unknown, the weights cannot be read or differ
            from `facts`, or the model does not accept the samples.
        BackendError: the device or precision is not available, or memory is too small.
    """
    compute = Compute(device=numerics.kind, precision=numerics.precision)
    _enter(numerics, compute)
    if isinstance(spec, OwnModel):
        loaded = _own(spec, numerics, compute)
    else:
        loaded = _listed(spec, sampling, numerics, compute)
    if facts is not None and loaded.weighted is not None:
        _check_weights(loaded.model.name, loaded.weighted, facts)
    return loaded


def _check_weights(name: str, weighted: nn.Module, facts: ModelSignature) -> None:
    if weights_digest(weighted) != facts.model["weights"]:
        raise ConfigError(
            f"{name} has other weights in this process than in the one before, so features would "
            "not go together; have it load them from a file, or draw them from a fixed seed"
        )


def _listed(
    spec: TorchvisionModelSpec, sampling: Sampling, numerics: Numerics, compute: Compute
) -> FeatureModel:
    task_of(spec.name)
    built = with_weights(spec.name, spec.weights)
    num_frames = sampling.clip_frames
    if num_frames is None and built.input.num_frames is not None:
        raise ConfigError(
            f"{spec.name} takes clips, and single frames were asked for; give --clip-len "
            f"{built.input.num_frames}, or an image model such as resnet50"
        )
    tapped, layer = _tapped(spec, built.module)
    loaded: Model[torch.Tensor] = Model(
        name=spec.name, module=tapped.eval(), input=built.input, output=_only, origin=built.origin
    )
    return FeatureModel(
        model=placed(with_clip_length(loaded, num_frames), compute),
        layer=layer,
        # A frame of a clip is preprocessed like a single frame.
        prepare=build_preprocess(spec.prep_level, replace(built.input, num_frames=None)),
        size=None,
        numerics=numerics,
        weighted=built.module,
    )


def _tapped(spec: TorchvisionModelSpec, module: nn.Module) -> tuple[nn.Module, str]:
    if spec.layer is not None:
        return FeatureExtractor(module, [spec.layer]), spec.layer
    if task_of(spec.name) == "detection":
        raise ConfigError(
            f"{spec.name} finds objects, and has no classifier whose input could be taken; give "
            "--layer, such as backbone.body.layer4"
        )
    pooled = HeadTap(module)
    return pooled, f"input of {pooled.head}"


def _only(output: Any) -> torch.Tensor:
    """Return the features of the one requested layer."""
    features: torch.Tensor = next(iter(output.values())) if isinstance(output, dict) else output
    return features


def _own(spec: OwnModel, numerics: Numerics, compute: Compute) -> FeatureModel:
    own = own_model(spec)
    module = own.call if isinstance(own.call, nn.Module) else None
    loaded: Model[torch.Tensor] = Model(
        name=spec.build,
        module=_Guarded(own),
        input=_AS_THEY_ARE,
        output=_itself,
        origin=spec.build,
    )
    return FeatureModel(
        model=placed(loaded, compute),
        layer="",
        prepare=_channels_first,
        size=own.size,
        numerics=numerics,
        weighted=module,
        version=own.version,
        state=own_state(own.call) if isinstance(own.call, nn.Module) else None,
    )


class _Guarded(nn.Module):
    """Wrapper of a custom model that names it in errors."""

    def __init__(self, own: CustomModel) -> None:
        super().__init__()
        self.call, self.name = own.call, own.name

    def forward(self, batch: torch.Tensor) -> Any:
        try:
            return self.call(batch)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise ConfigError(
                f"{self.name} failed on uint8 {list(batch.shape)}: {in_words(error)}"
            ) from error


def _itself(features: torch.Tensor) -> torch.Tensor:
    return features


def _channels_first(frames: Any) -> torch.Tensor:
    batch: torch.Tensor = torch.from_numpy(frames) if isinstance(frames, np.ndarray) else frames
    return batch.permute(0, 3, 1, 2)


def _enter(numerics: Numerics, compute: Compute) -> None:
    """Select the requested GPU for this process."""
    check_available(compute, f"device {numerics.device}")
    _, is_numbered, index = numerics.device.partition(":")
    if not is_numbered:
        return
    if int(index) >= torch.cuda.device_count():
        raise BackendError(
            f"device {numerics.device} was asked for, and there are {torch.cuda.device_count()} "
            "GPUs, counted from 0; choose another --device"
        )
    torch.cuda.set_device(int(index))
