"""Feature model: loading, from decoded frames to arrays, and the measurement of its signature."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headrace.errors import BackendError, ConfigError, did_you_mean, first_line, in_words
from headrace.extraction.extraction_options import name_list
from headrace.extraction.features.model_spec import (
    FeatureModelSpec,
    ModelSignature,
    Numerics,
    OwnModel,
    SampleSpec,
)
from headrace.extraction.features.own_state import OwnState, imported_code, own_state
from headrace.models.checkpoint import weights_digest
from headrace.models.compute import Compute
from headrace.models.device import check_available, is_out_of_memory
from headrace.models.evaluation_mode import evaluation_mode, is_training
from headrace.models.model import Model, place_model
from headrace.models.outputs import describe_value
from headrace.preprocess.spec import InputSpec
from headrace.units import check_integers

if TYPE_CHECKING:  # it imports torchvision
    from headrace.preprocess.levels import Preprocess


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


def load_feature_model(
    spec: FeatureModelSpec,
    sampling: SampleSpec,
    numerics: Numerics,
    facts: ModelSignature | None = None,
) -> FeatureModel:
    """Load a model onto its device.

    Args:
        spec: Model.
        sampling: Samples of the model.
        numerics: Device and precision.
        facts: Signature of an earlier load, to compare the weights with, at about 1 GB a second.

    Raises:
        ConfigError: the model, layer or function is unknown, the weights cannot be read or differ
            from `facts`, or the model does not accept the samples.
        BackendError: the device or precision is not available, or memory is too small.
    """
    compute = Compute(device=numerics.kind, precision=numerics.precision)
    _select_gpu(numerics, compute)
    if isinstance(spec, OwnModel):
        loaded = _custom_model(spec, numerics, compute)
    else:
        from headrace.extraction.features.torchvision_model import torchvision_parts

        model, layer, weighted, prepare = torchvision_parts(spec, sampling.clip_frames)
        loaded = FeatureModel(
            model=place_model(model, compute),
            layer=layer,
            prepare=prepare,
            size=None,
            numerics=numerics,
            weighted=weighted,
        )
    module = loaded.weighted
    if facts is None or module is None or weights_digest(module) == facts.model["weights"]:
        return loaded
    raise ConfigError(
        f"the weights of {loaded.model.name} differ between processes, so its features do not "
        "match; load them from a file, or draw them from a fixed seed"
    )


def _select_gpu(numerics: Numerics, compute: Compute) -> None:
    """Make the requested GPU the current device of this process."""
    check_available(compute, f"device {numerics.device}")
    _, is_numbered, index = numerics.device.partition(":")
    if not is_numbered:
        return
    if int(index) >= torch.cuda.device_count():
        raise BackendError(
            f"device {numerics.device} does not exist: there are {torch.cuda.device_count()} GPUs, "
            "counted from 0; choose another --device"
        )
    torch.cuda.set_device(int(index))


def _custom_model(spec: OwnModel, numerics: Numerics, compute: Compute) -> FeatureModel:
    """Return the model of the user's function on its device. Raises as `_build` does."""
    call = _build(spec)
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


def _build(spec: OwnModel) -> Any:
    """Import and call the user's function; return its model: uint8 [N, 3, H, W], or clips
    [N, 3, T, H, W] -> a tensor [N, ...].

    Raises:
        ConfigError: the function cannot be found, fails, or does not return a callable.
    """
    module, _, name = spec.build.partition(":")
    try:
        imported = import_module(module)
    except Exception as error:
        raise ConfigError(
            f"cannot import {spec.build}: {in_words(error)}; give module:function, as Python finds "
            "it from here (PYTHONPATH=. for a file in this folder)"
        ) from error
    build = getattr(imported, name, None)
    if build is None:
        advice = did_you_mean(name, vars(imported)) or "give module:function"
        raise ConfigError(f"the module {module} has no function {name!r}; {advice}")
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


def measure_signature(
    spec: FeatureModelSpec, sampling: SampleSpec, numerics: Numerics
) -> tuple[ModelSignature, list[Path]]:
    """Return the signature of a model, and the files that determine its weights.

    Loads the model, runs it once, and reads all weights: about 1 GB a second.

    Raises:
        ConfigError, BackendError: see `load_feature_model`; or the model cannot run.
    """
    loaded = load_feature_model(spec, sampling, numerics)
    shape = loaded.probe(sampling.clip_frames)
    files = list[Path]()
    if isinstance(spec, OwnModel):
        facts = _custom_facts(spec, loaded)
    else:
        from headrace.extraction.features import torchvision_model
        from headrace.models.load import weight_files

        assert loaded.weighted is not None
        preprocess = torchvision_model.preprocess_facts(
            spec.prep_level, loaded.model.input, device=numerics.kind
        )
        model = torchvision_model.model_facts(spec.name, loaded.weighted, [loaded.layer])
        facts = {"preprocess": preprocess, "model": model}
        files = weight_files(spec.name, spec.weights)
    signature = ModelSignature(
        shape=shape,
        layer=loaded.layer,
        origin=loaded.model.origin,
        numerics={**numerics_facts(loaded.model.compute), "dtype": numerics.dtype},
        **facts,
    )
    return signature, files


def _custom_facts(spec: OwnModel, loaded: FeatureModel) -> dict[str, Any]:
    """Return the fields of a `ModelSignature` that depend on the kind of model."""
    module, state = loaded.weighted, loaded.state
    kinds = [] if module is None else map(type, module.modules())
    modules = {spec.build.partition(":")[0], *(kind.__module__ for kind in kinds)}
    return {
        "preprocess": {"size": loaded.size, "device": loaded.model.compute.device},
        "model": {
            "name": spec.build,
            "version": loaded.version,
            "weights": None if module is None else weights_digest(module),
            "attributes": None if state is None else state.attributes,
            "code": imported_code({name.partition(".")[0] for name in modules}),
        },
        "uncached": _uncached(spec, loaded),
        "is_training": is_training(module),
    }


def _uncached(spec: OwnModel, loaded: FeatureModel) -> str | None:
    """Return the reason results of a model have no cache key; None: they have a key."""
    if loaded.version is not None or (loaded.state is not None and not loaded.state.unstable):
        return None
    problem = "is not an nn.Module"
    if loaded.state is not None:
        names = name_list(loaded.state.unstable)
        problem = f"has attributes that cannot be compared between runs, {names},"
    return (
        f"{spec.build} {problem} and has no attribute version; add one, a text that you change "
        "whenever its results change"
    )


def numerics_facts(compute: Compute) -> dict[str, Any]:
    """Return the settings that change the last digits of a result: `ChunkKey.numerics`.

    For a GPU, this includes its generation, because kernels differ, and whether float32 is
    computed with reduced precision. The batch size is left out.
    """
    facts: dict[str, Any] = {
        "precision": compute.precision,
        "device": compute.device,
        "split_layer": compute.split_layer,
        "is_compiled": compute.compile,
        "is_channels_last": False,  # stays part of the keys
        "torch": torch.__version__,
    }
    if compute.device == "cuda":
        facts["generation"] = list(torch.cuda.get_device_capability())
        facts["float32"] = torch.get_float32_matmul_precision()
        facts["tf32_convolutions"] = bool(torch.backends.cudnn.allow_tf32)
    return facts
