"""Loading a classifier of torchvision with the weights that were asked for, or saying why not."""

import difflib
import re
import struct
import sys
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from http.client import HTTPException
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
_WRAPPERS = re.compile(r"^((module|_orig_mod)\.)+")
"""What DataParallel and torch.compile put before the names of a state dict."""
_OLD_DENSENET = re.compile(r"(?<=denselayer)(\d+\.(?:norm|conv))\.(?=[12]\.)")
"""Names in torchvision's own files of DenseNets hold a dot that the models no longer have."""
_NO_CHECKPOINT = (
    *(RuntimeError, ValueError, EOFError, LookupError, TypeError, AssertionError),
    *(UnpicklingError, struct.error),
)
"""What reading a file that PyTorch did not write was seen to raise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Classifier:
    """A classification model, ready to run."""

    name: str
    """torchvision's name of it."""
    module: nn.Module
    """In evaluation mode, on `device`; takes float32 [N, 3, H, W], gives one score per class."""
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
    number. Nothing in a checkpoint is executed.

    Raises:
        ConfigError: there is no such model, or the weights cannot be had or do not fit it.
        BackendError: `cuda` was asked for and is not there.
    """
    preset = _preset_of(name, weights)
    if device == "cuda" and not torch.cuda.is_available():
        raise BackendError(
            "device cuda was asked for, and PyTorch sees no CUDA device; "
            "use --device cpu, or install a driver and a CUDA build of PyTorch"
        )
    if weights == "DEFAULT":
        module, origin = _from_torchvision(name, preset), f"torchvision {preset}"
    elif weights == "none":
        module, origin = _random(name, preset), f"random, seed {_SEED}"
    else:
        module, origin = _from_file(name, preset, Path(weights)), weights
    labels = tuple(preset.meta["categories"] or ())
    is_labelled = weights != "none" and _num_classes(module) == len(labels)
    return Classifier(
        name=name,
        module=module.eval().to(device),
        input=_input_of(preset),
        labels=labels if is_labelled else None,
        origin=origin,
        device=device,
    )


def _preset_of(name: str, weights: str) -> WeightsEnum:
    """Return torchvision's description of the weights: by file name when it is one of its own."""
    known = models.list_models(module=models)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=_SHOWN) or known[:_SHOWN]
        raise ConfigError(
            f"torchvision has no classification model {name!r}; did you mean "
            f"{', '.join(close)}? ({len(known)} in torchvision.models.list_models())"
        )
    offered = models.get_model_weights(name)
    file = Path(weights).name
    return next((own for own in offered if own.url.endswith(f"/{file}")), offered.DEFAULT)


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
        # torch.hub tells of downloads on stdout, where results belong.
        with redirect_stdout(sys.stderr):
            return models.get_model(name, weights=preset)
    except (OSError, HTTPException, *_NO_CHECKPOINT) as error:
        raise ConfigError(
            f"the weights {preset} of {name} can be had neither from the cache "
            f"{torch.hub.get_dir()} nor from the network ({_first_line(error)}); "
            "give --weights FILE, or --weights none for random ones"
        ) from error


def _random(name: str, preset: WeightsEnum, num_classes: int | None = None) -> nn.Module:
    options: dict[str, Any] = {} if num_classes is None else {"num_classes": num_classes}
    # What torchvision sets by itself only where it loads its own weights.
    if name.startswith("vit_"):
        options |= {"image_size": _input_of(preset).crop}
    if name in ("googlenet", "inception_v3"):
        options |= {"transform_input": True, "init_weights": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return models.get_model(name, weights=None, **options)


def _from_file(name: str, preset: WeightsEnum, path: Path) -> nn.Module:
    state = _read_state(path)
    module = _random(name, preset)
    head = state.get(_head(module))
    if head is not None and head.ndim and len(head) != _num_classes(module):
        module = _random(name, preset, num_classes=len(head))
    _check_fit(module.state_dict(), state, name, path)
    module.load_state_dict(state)
    return module


def _check_fit(
    expected: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], name: str, path: Path
) -> None:
    wrong = [
        # Counts of batches are missing in old files; nothing is computed from them.
        *(
            f"{key} is missing"
            for key in expected
            if key not in state and not key.endswith("num_batches_tracked")
        ),
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


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict of a checkpoint. Nothing in the file is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(
            f"cannot read the weights file {path}: {(error.strerror or str(error)).lower()}; "
            "give a checkpoint, DEFAULT or none"
        ) from error
    except _NO_CHECKPOINT as error:
        raise ConfigError(
            f"the weights file {path} is no checkpoint that can be read safely "
            f"({type(error).__name__}); save a state dict with torch.save(model.state_dict(), path)"
        ) from error
    if isinstance(content, Mapping):
        content = next((content[k] for k in ("state_dict", "model") if k in content), content)
    if not isinstance(content, Mapping) or not all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in content.items()
    ):
        raise ConfigError(
            f"the weights file {path} holds no state dict (names to tensors); "
            "save one with torch.save(model.state_dict(), path)"
        )
    return {_OLD_DENSENET.sub(r"\1", _WRAPPERS.sub("", k)): v for k, v in content.items()}


def _head(module: nn.Module) -> str:
    """Return the name of the last matrix: all of torchvision's classifiers end in one."""
    matrices = ((k, v) for k, v in module.state_dict().items() if k.endswith(".weight"))
    return [key for key, value in matrices if value.ndim in (2, 4)][-1]


def _num_classes(module: nn.Module) -> int:
    return len(module.state_dict()[_head(module)])


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
