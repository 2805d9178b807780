"""File of a trained head: weights, classes, and the backbone it belongs to."""

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
PLACES: Final = ("DEFAULT", "none")
"""Names of backbone weights that are not files."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedHead:
    """Trained part of a classifier."""

    model: str
    """torchvision's name."""
    backbone: str
    """Weights of the backbone: `DEFAULT`, `none`, or the path of a checkpoint."""
    checksum: int
    """Checksum of these weights: see `backbone_checksum`."""
    classes: tuple[str, ...]
    """Name of each class."""
    state: Mapping[str, torch.Tensor]
    """Name → trained weights of the head and of layers trained with it."""

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
    def of(cls, content: Any, path: Path) -> "TrainedHead | None":
        """Return the head in the content of a checkpoint; None if it holds no head.

        Raises:
            ConfigError: the head is damaged, or has another layout.
        """
        if not isinstance(content, Mapping) or _FORMAT not in content:
            return None
        if content[_FORMAT] != _VERSION:
            raise ConfigError(
                f"the head {path} has layout {content[_FORMAT]!r}, this headrace reads {_VERSION}; "
                "read it with the headrace that wrote it, or train it again"
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

    def weights(self, path: Path) -> str:
        """Return the path of the backbone's weights: the recorded path, or a file beside the head.

        Args:
            path: Path of the head.

        Raises:
            ConfigError: neither file exists.
        """
        if self.backbone in PLACES:
            return self.backbone
        original, beside = Path(self.backbone), path.parent / Path(self.backbone).name
        for path_of_weights in (original, beside):
            if path_of_weights.is_file() and not (path.exists() and path_of_weights.samefile(path)):
                return str(path_of_weights)
        raise ConfigError(
            f"the head {path} belongs on the weights {original}, which are not there; "
            "put them back, or beside the head"
        )

    def put_on(self, module: nn.Module, path: Path) -> None:
        """Load the trained weights into a backbone with a head for these classes.

        Raises:
            ConfigError: the head does not fit, or was trained on another backbone.
        """
        own = module.state_dict()
        shapes = {name: value.shape for name, value in self.state.items()}
        if any(name not in own or own[name].shape != shape for name, shape in shapes.items()):
            raise ConfigError(f"the head {path} does not fit {self.model}; train it again")
        if backbone_checksum(module, self.state) != self.checksum:
            raise ConfigError(
                f"the head {path} was trained on other weights {self.backbone} of {self.model}: "
                "the file, or what PyTorch makes of it, has changed; train it again"
            )
        module.load_state_dict(dict(self.state), strict=False)


def backbone_checksum(module: nn.Module, trained: Collection[str]) -> int:
    """Return a checksum of the backbone's weights.

    CRC-32 over all weights and buffers that are not `trained`, about 1 GB a second.
    """
    checksum = 0
    for name, value in module.state_dict().items():
        if name not in trained:
            checksum = zlib.crc32(value.detach().cpu().contiguous().numpy().data, checksum)
    return checksum


def _all_are(kind: type, values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(v, kind) for v in values)
