"""Results of models, as plain values on the CPU: labels, boxes; class names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray

from headrace.config_fields import Option, check_options
from headrace.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Most likely classes of each image or clip of a batch, most likely first."""

    names: tuple[tuple[str, ...], ...]
    """names[k]: top-k class names of image or clip k; "class 7" if the weights have no names."""
    confidence: tuple[tuple[float, ...], ...]
    """Softmax probability of each of `names`, 0 to 1, descending."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Boxes:
    """Boxes in each image of a batch, by descending score."""

    xyxy: tuple[NDArray[np.float32], ...]
    """xyxy[k]: boxes in image k, float32 [n, 4]: left, top, right, bottom, in pixels of the model's
    input image, from its upper left corner."""
    classes: tuple[NDArray[np.int64], ...]
    """int64 [n]: class number of each box."""
    labels: tuple[tuple[str, ...], ...]
    """Class name of each box."""
    scores: tuple[NDArray[np.float32], ...]
    """float32 [n]: score of each box, 0 to 1, descending."""


_MAX_DIGITS: Final = 5
_NONE: Final = frozenset(["__background__", "no person", "N/A"])
"""Placeholders in torchvision's lists for numbers without a class."""


@dataclass(frozen=True, kw_only=True)
class ClassNames:
    """Class names of a model."""

    names: tuple[str, ...] | None
    """Name of each class; None if the weights have no names."""

    def __getitem__(self, number: int) -> str:
        """Return the name of a class; without names, its number."""
        return self.names[number] if self.names else f"class {number}"

    def items(self) -> Iterator[tuple[int, str]]:
        """Yield number and name of each class of objects; nothing without names."""
        yield from ((k, name) for k, name in enumerate(self.names or ()) if name not in _NONE)

    def number(self, name: str) -> int:
        """Return the number of the class called `name`, ignoring case.

        A class without a name is given by its number: "7", or "class 7".

        Raises:
            ConfigError: the model has no such class.
        """
        numbers = {known.lower(): number for number, known in self.items()}
        if name.lower() in numbers:
            return numbers[name.lower()]
        if self.names is None:
            return _plain_number(name)
        near = did_you_mean(name.lower(), numbers, instead=[*numbers])
        raise ConfigError(f"this model knows no class {name!r}; {near} ({len(numbers)} classes)")


def _plain_number(name: str) -> int:
    digits = name.lower().removeprefix("class").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        raise ConfigError(
            f"the weights of this model have no names of classes, got {name!r}; "
            "give their numbers: 1,2"
        )
    return int(digits)


@dataclass(frozen=True, kw_only=True)
class BoxChoice:
    """Boxes of a detector to keep.

    Detectors already drop boxes with low scores: torchvision's drop scores below 0.001 to 0.2
    (by model), and keep the best 100 to 300 per image.
    """

    threshold: Annotated[float, Option("Minimum score of a box, from 0 to 1.", metavar="SCORE")] = (
        0.7
    )
    max_boxes: Annotated[
        int | None, Option("Max boxes per image, highest scores first.", least=1, metavar="N")
    ] = None
    """None: all."""
    classes: Annotated[
        tuple[str, ...],
        Option("Keep only these classes, such as person,dog.", metavar="NAME,NAME"),
    ] = ()
    """Class names, or numbers if the weights have no names; empty: all."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold must lie in 0 to 1, got {self.threshold}")
        check_options(self)

    def numbers(self, class_names: ClassNames) -> frozenset[int] | None:
        """Return the numbers of the kept classes; None: all.

        Raises:
            ConfigError: the model has no such class.
        """
        return frozenset(map(class_names.number, self.classes)) if self.classes else None
