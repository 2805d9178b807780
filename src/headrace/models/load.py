"""Loading a classifier of torchvision with the weights that were asked for, or saying why not."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from torch import nn
from torchvision import models
from torchvision.models import WeightsEnum

from headrace.errors import BackendError, ConfigError
from headrace.preprocess.spec import InputSpec

Device = Literal["cpu", "cuda"]

_SEED = 0
_SHOWN = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Classifier:
    """A classification model, ready to run."""

    name: str
    """torchvision's name of it."""
    module: nn.Module
    """In evaluation mode, on `device`; takes float32 [N, 3, H, W]."""
    input: InputSpec
    """The picture it takes."""
    labels: tuple[str, ...] | None
    """Name of each class; None when the weights do not tell."""
    origin: str
    """Where the weights are from, for the record."""
    device: Device
    """Where it runs."""

    def label(self, number: int) -> str:
        """Return the name of a class, or its number when it has none."""
        return self.labels[number] if self.labels else f"class {number}"


def load_classifier(name: str, weights: str, device: Device = "cpu") -> Classifier:
    """Load the classifier `name` of torchvision.

    `weights` is `DEFAULT` (torchvision's own, from its cache or the network), `none` (random, the
    same each time) or the path of a checkpoint: a state dict, or a dict that holds one as
    `state_dict` or `model`. A checkpoint with another number of classes gives a model with that
    number.

    Raises:
        ConfigError: there is no such model, or the weights cannot be had or do not fit it.
        BackendError: `cuda` was asked for and is not there.
    """
    known = models.list_models(module=models)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=_SHOWN) or known[:_SHOWN]
        raise ConfigError(
            f"torchvision has no classification model {name!r}; did you mean "
            f"{', '.join(close)}? ({len(known)} in torchvision.models.list_models())"
        )
    if device == "cuda" and not torch.cuda.is_available():
        raise BackendError(
            "device cuda was asked for, and PyTorch sees no CUDA device; "
            "use --device cpu, or install a driver and a CUDA build of PyTorch"
        )
    preset = _preset_of(name, weights)
    categories: tuple[str, ...] = tuple(preset.meta["categories"])
    if weights == "DEFAULT":
        module, origin = _from_torchvision(name, preset), f"torchvision {preset}"
    elif weights == "none":
        module, origin = _random(name, len(categories)), f"random, seed {_SEED}"
    else:
        module, origin = _from_file(name, Path(weights)), weights
    is_labelled = weights != "none" and _num_classes(module.state_dict()) == len(categories)
    return Classifier(
        name=name,
        module=module.eval().to(device),
        input=_input_of(preset),
        labels=categories if is_labelled else None,
        origin=origin,
        device=device,
    )


def _preset_of(name: str, weights: str) -> WeightsEnum:
    """Return torchvision's description of the weights: by file name when it is one of its own."""
    offered = models.get_model_weights(name)
    file = Path(weights).name
    return next((w for w in offered if w.url.endswith(f"/{file}")), offered.DEFAULT)


def _input_of(preset: WeightsEnum) -> InputSpec:
    transforms = preset.transforms()
    return InputSpec(
        resize=transforms.resize_size[0],
        crop=transforms.crop_size[0],
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        interpolation=transforms.interpolation.value,
    )


def _from_torchvision(name: str, preset: WeightsEnum) -> nn.Module:
    try:
        return models.get_model(name, weights=preset)
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"the weights {preset} of {name} are not in the cache and could not be fetched "
            f"({error}); give --weights FILE, or --weights none for random ones"
        ) from error


def _random(name: str, num_classes: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return models.get_model(name, weights=None, num_classes=num_classes)


def _from_file(name: str, path: Path) -> nn.Module:
    state = _read_state(path)
    module = _random(name, _num_classes(state) or 1000)
    expected = module.state_dict()
    wrong = [
        *(f"{key} is missing" for key in expected if key not in state),
        *(f"{key} is not in the model" for key in state if key not in expected),
        *(
            f"{key} is {list(value.shape)}, the model has {list(expected[key].shape)}"
            for key, value in state.items()
            if key in expected and value.shape != expected[key].shape
        ),
    ]
    if wrong:
        more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ConfigError(
            f"the weights in {path} do not fit {name}: {'; '.join(wrong[:_SHOWN])}{more}; "
            "give the model they were made for with --model-name"
        )
    module.load_state_dict(state)
    return module


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict of a checkpoint. Nothing in the file is executed."""
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, UnpicklingError) as error:
        raise ConfigError(_unreadable(path, error)) from error
    if isinstance(content, Mapping):
        content = next((content[k] for k in ("state_dict", "model") if k in content), content)
    if not isinstance(content, Mapping) or not all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in content.items()
    ):
        raise ConfigError(
            f"the weights file {path} holds no state dict (names to tensors); "
            "save one with torch.save(model.state_dict(), path)"
        )
    return {key.removeprefix("module."): value for key, value in content.items()}


def _unreadable(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return (
            f"cannot read the weights file {path}: {(error.strerror or str(error)).lower()}; "
            "give a checkpoint, DEFAULT or none"
        )
    return (
        f"the weights file {path} is no checkpoint that can be read safely "
        f"({type(error).__name__}); save a state dict with torch.save(model.state_dict(), path)"
    )


def _num_classes(state: Mapping[str, torch.Tensor]) -> int | None:
    """Return the outputs of the last layer: rows of the last matrix that has a bias."""
    weights = [k for k in state if k.endswith(".weight") and state[k].ndim in (2, 4)]
    heads = [k for k in weights if k.replace(".weight", ".bias") in state]
    return len(state[heads[-1]]) if heads else None
