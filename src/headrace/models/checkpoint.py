"""Checkpoint files: safe reading, without executing their code, and digests of weights."""

import hashlib
import re
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import nn

from headrace.errors import ConfigError, reason_of

NO_CHECKPOINT = (
    *(RuntimeError, ValueError, EOFError, LookupError, TypeError, AssertionError),
    *(UnpicklingError, struct.error),
)
"""Exceptions observed when PyTorch reads a file that it did not write."""

_MAX_PROBLEMS = 3
"""Max problems named in an error."""
_WRAPPERS = re.compile(r"^((module|_orig_mod)\.)+")
"""Prefixes that DataParallel and torch.compile add to the names of a state dict."""
_OLD_DENSENET = re.compile(r"(?<=denselayer)(\d+\.(?:norm|conv))\.(?=[12]\.)")
"""Names in torchvision's DenseNet files have one dot more than in the models."""


def read_checkpoint(path: Path) -> Any:
    """Return the content of a checkpoint: tensors and plain values. Executes no code.

    Raises:
        ConfigError: the file cannot be read, or is not a checkpoint.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(
            f"cannot read the weights file {path}: {reason_of(error)}; "
            "give a checkpoint, DEFAULT or none"
        ) from error
    except NO_CHECKPOINT as error:
        raise ConfigError(
            f"the weights file {path} is not a checkpoint, or needs code to load "
            f"({type(error).__name__}); save a state dict with torch.save(model.state_dict(), path)"
        ) from error


def state_of(content: Any, path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict in the content of a checkpoint.

    The content is a state dict, or a dict that holds one as `state_dict` or `model`.

    Raises:
        ConfigError: the content holds no state dict.
    """
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


def check_fit(
    expected: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], name: str, path: Path
) -> None:
    """Raise ConfigError if the tensors of a checkpoint do not fit the model `name`."""
    problems = [
        # Old files lack num_batches_tracked, which inference does not use.
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
    if problems:
        excess = len(problems) - _MAX_PROBLEMS
        more = f", and {excess} more" if excess > 0 else ""
        raise ConfigError(
            f"the weights in {path} do not fit {name}: "
            f"{'; '.join(problems[:_MAX_PROBLEMS])}{more}; "
            "give their model with --model-name"
        )


def weights_digest(module: nn.Module) -> str:
    """Return `sha256:…` over the names, dtypes, shapes and values of all weights and buffers.

    Takes about 1 s per GB, plus a copy of GPU weights to main memory. Call it before compiling the
    model, wrapping it for several GPUs, or changing its memory format, all of which change names
    or layout.
    """
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"
