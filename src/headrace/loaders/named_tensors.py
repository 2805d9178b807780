"""NamedTensors: tensors by name, in the form that every trainer takes as it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import torch


@dataclass(frozen=True, kw_only=True)
class BatchNames:
    """Names for a reader; a batch that a trainer built anew has none, and is shown by numbers."""

    videos: tuple[str, ...] = ()
    """Of each sample, its file, or its clip of several cameras."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of labels in words → the names of its classes."""
    cameras: tuple[str, ...] = ()
    """In the order of a batch."""


NOTHING_TOLD = BatchNames()


class NamedTensors(dict[str, Any]):
    """N samples as a dict of tensors, which are attributes too: `batch["frames"]`, `batch.frames`.

    Lightning, Hugging Face's Trainer and accelerate, and the pinning of a stock DataLoader, take
    it as it is, move it and give back the same kind. `len` is the number of samples, not that of
    the names.
    """

    _told: BatchNames = NOTHING_TOLD
    """Names for a reader, beside the entries: no trainer moves, gathers or passes them on."""

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
        """Return this batch, which `show` describes in these words."""
        self.__dict__["_told"] = told
        return self

    def __len__(self) -> int:
        sized = (each for each in self.values() if isinstance(each, list) or _is_of_many(each))
        return len(next(sized, ()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        """Shapes in place of values."""
        said = ", ".join(f"{name} {_shape(value)}" for name, value in self.items())
        return f"{type(self).__name__}({len(self)} samples: {said})"

    def sample(self, place: int) -> dict[str, Any]:
        """Return what there is of one sample, by name; tensors share memory with the batch."""
        return {name: value[place] for name, value in self.items()}

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the same on `device`: what is there already, without a copy.

        Args:
            device: As torch has it: "cuda", "cuda:1", "cpu".
            non_blocking: Whether to go on before a copy from pinned memory has come to its end.
        """
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return a copy in page-locked memory, which CUDA copies in the background.

        Raises:
            RuntimeError: of PyTorch, where there is no GPU.
        """
        return self._each(torch.Tensor.pin_memory)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        made = type(self)({name: _changed(value, change) for name, value in self.items()})
        made.__dict__.update(self.__dict__)
        return made


def _is_of_many(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim > 0


def _changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_changed(each, change) for each in value] if isinstance(value, list) else value


def _shape(value: object) -> str:
    if isinstance(value, torch.Tensor):
        where = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}{where}"
    if isinstance(value, list) and value:
        return f"{len(value)} x {_shape(value[0])}"
    return type(value).__name__
