"""File of a trained head: weights, classes, and its backbone."""

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError, first_line

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
