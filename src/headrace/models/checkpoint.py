"""Checkpoint files: safe reading, without executing their code; digests; trained heads."""

import hashlib
import re
import struct
import warnings
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final

import torch
from torch import nn

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError, first_line, reason_of

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


_FORMAT: Final = "headrace_head"
_VERSION: Final = 1
NAMED_WEIGHTS: Final = ("DEFAULT", "none")
"""Weights of a backbone that are not a file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedHead:
    """Trained part of a classifier."""

    model: str
    """torchvision's name."""
    backbone: str
    """Weights of the backbone: `DEFAULT`, `none`, or the path of a checkpoint."""
    checksum: int
    """Checksum of the backbone's weights: see `backbone_checksum`."""
    classes: tuple[str, ...]
    state: Mapping[str, torch.Tensor]
    """Name → weights of the head and of the layers trained with it."""

    def save(self, path: Path) -> None:
        """Write the file; it appears complete or not at all.

        Raises:
            ConfigError: the file cannot be written.
        """
        partial = partial_of(path)
        content = {
            _FORMAT: _VERSION,
            "model": self.model,
            "backbone": self.backbone,
            "checksum": self.checksum,
            "classes": list(self.classes),
            "state_dict": {name: value.detach().cpu() for name, value in self.state.items()},
        }
        try:
            torch.save(content, partial)
            partial.replace(path)
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                f"cannot write the head {path}: {first_line(error)}; give another folder with --out"
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def from_checkpoint(cls, content: Any, path: Path) -> "TrainedHead | None":
        """Return the head in the content of a checkpoint; None if it holds no head.

        Raises:
            ConfigError: the head is damaged, or has another layout version.
        """
        if not isinstance(content, Mapping) or _FORMAT not in content:
            return None
        if content[_FORMAT] != _VERSION:
            raise ConfigError(
                f"the head {path} has layout {content[_FORMAT]!r}, this headrace reads {_VERSION}; "
                "read it with the headrace version that wrote it, or train it again"
            )
        names = ("model", "backbone", "checksum", "classes", "state_dict")
        parts: list[Any] = [content.get(name) for name in names]
        model, backbone, checksum, classes, state = parts
        if not (
            (isinstance(model, str) and isinstance(backbone, str) and isinstance(checksum, int))
            and _all_are(str, classes)
            and isinstance(state, Mapping)
            and _all_are(str, list(state))
            and _all_are(torch.Tensor, list(state.values()))
        ):
            raise ConfigError(f"the head {path} is damaged; train it again")
        return cls(
            model=model, backbone=backbone, checksum=checksum, classes=tuple(classes), state=state
        )

    def backbone_path(self, path: Path) -> str:
        """Return the weights of the backbone: `DEFAULT`, `none`, or the path of a file.

        The file has the recorded path, or lies beside the head.

        Args:
            path: Path of the head.

        Raises:
            ConfigError: neither file exists.
        """
        if self.backbone in NAMED_WEIGHTS:
            return self.backbone
        original, beside = Path(self.backbone), path.parent / Path(self.backbone).name
        for path_of_weights in (original, beside):
            if path_of_weights.is_file() and not (path.exists() and path_of_weights.samefile(path)):
                return str(path_of_weights)
        raise ConfigError(
            f"the backbone weights {original} of the head {path} do not exist; "
            "restore them, or put them beside the head"
        )

    def load_into(self, module: nn.Module, path: Path) -> None:
        """Load the trained weights into a backbone with a head for these classes.

        Raises:
            ConfigError: the head does not fit, or was trained on another backbone.
        """
        expected = module.state_dict()
        shapes = {name: value.shape for name, value in self.state.items()}
        if any(
            name not in expected or expected[name].shape != shape for name, shape in shapes.items()
        ):
            raise ConfigError(f"the head {path} does not fit {self.model}; train it again")
        if backbone_checksum(module, self.state) != self.checksum:
            raise ConfigError(
                f"the head {path} was trained with different backbone weights ({self.backbone} of "
                f"{self.model}): the file or the PyTorch version has changed; train it again"
            )
        module.load_state_dict(dict(self.state), strict=False)


def backbone_checksum(module: nn.Module, trained: Collection[str]) -> int:
    """Return the CRC-32 of all weights and buffers except the `trained` ones; about 1 s per GB."""
    checksum = 0
    for name, value in module.state_dict().items():
        if name not in trained:
            checksum = zlib.crc32(value.detach().cpu().contiguous().numpy().data, checksum)
    return checksum


def _all_are(kind: type, values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(v, kind) for v in values)
