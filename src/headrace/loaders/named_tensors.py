"""NamedTensors: tensors by name, in a form that every trainer accepts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import torch


@dataclass(frozen=True, kw_only=True)
class BatchNames:
    """Names shown to a reader; a batch that a trainer rebuilt has none, and shows numbers."""

    videos: tuple[str, ...] = ()
    """File of each sample, or its clip of several cameras."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of labels in words → names of its classes."""
    cameras: tuple[str, ...] = ()
    """Camera names, in the order of the batch."""


NOTHING_TOLD = BatchNames()


class NamedTensors(dict[str, Any]):
    """N samples as a dict of tensors, which are attributes too: `batch["frames"]`, `batch.frames`.

    Lightning, Hugging Face's Trainer and accelerate, and the pinning of a stock DataLoader, take
    it as it is, move it and return the same class. `len` is the number of samples, not of names.
    """

    _told: BatchNames = NOTHING_TOLD
    """Names for a reader, beside the entries: trainers do not move, gather or copy them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"a {type(self).__name__} has {', '.join(self)}, and no {name!r}"
            ) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __missing__(self, key: object) -> NoReturn:
        if isinstance(key, str):
            raise KeyError(key)
        what = type(self).__name__.lower()
        raise KeyError(
            f"a {what} is a dict by name: {', '.join(self)}; {what}.sample(0) gives one sample"
        )

    def tell(self, told: BatchNames) -> Self:
        """Return this batch, with names for `show`."""
        self.__dict__["_told"] = told
        return self

    def __len__(self) -> int:
        sized = (value for value in self.values() if isinstance(value, list) or _has_rows(value))
        return len(next(sized, ()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        """Shapes in place of values."""
        shapes = ", ".join(f"{name} {_shape(value)}" for name, value in self.items())
        return f"{type(self).__name__}({len(self)} samples: {shapes})"

    def sample(self, place: int) -> dict[str, Any]:
        """Return the entries of one sample, by name; tensors share memory with the batch."""
        return {name: value[place] for name, value in self.items()}

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the batch on `device`; tensors already there are not copied.

        Args:
            device: A device of torch: "cuda", "cuda:1", "cpu".
            non_blocking: Whether to return before a copy from pinned memory has ended.
        """
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return a copy in page-locked memory, from which CUDA copies in the background.

        Raises:
            RuntimeError: from PyTorch, if there is no GPU.
        """
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        batch = type(self)({name: _mapped(value, change) for name, value in self.items()})
        batch.__dict__.update(self.__dict__)
        return batch


def _has_rows(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim > 0


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def _shape(value: object) -> str:
    if isinstance(value, torch.Tensor):
        device = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}{device}"
    if isinstance(value, list) and value:
        return f"{len(value)} x {_shape(value[0])}"
    return type(value).__name__
