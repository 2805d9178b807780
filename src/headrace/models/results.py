"""What models give, as plain values on the CPU: labels, boxes, features; names of classes."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray

from headrace.config_fields import Option, check_options
from headrace.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The likeliest classes of each picture or clip of a batch, the likeliest first."""

    names: tuple[tuple[str, ...], ...]
    """names[k]: of picture or clip k, as many as were asked for (top-k). Names of the classes, or
    "class 7" where the weights have no names."""
    confidence: tuple[tuple[float, ...], ...]
    """Softmax probability of each of `names`, 0 to 1, descending."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Boxes:
    """What was found in each picture of a batch, and where; the surest first."""

    xyxy: tuple[NDArray[np.float32], ...]
    """xyxy[k]: of picture k, float32 [n, 4]: left, top, right, bottom, in pixels of the picture as
    the model got it, from its upper left corner."""
    classes: tuple[NDArray[np.int64], ...]
    """int64 [n]: number of the class of each box, as the model counts them."""
    labels: tuple[tuple[str, ...], ...]
    """Name of the class of each box."""
    scores: tuple[NDArray[np.float32], ...]
    """float32 [n]: how sure the model is, 0 to 1, descending."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """What layers of a model give for each picture or clip of a batch."""

    layers: Mapping[str, NDArray[np.float32]]
    """Name of the layer -> float32 [N, ...], in the layer's own dimensions."""


_SHOWN: Final = 3
_NONE: Final = frozenset(["__background__", "no person", "N/A"])
"""Names in torchvision's lists for numbers that stand for no class."""


@dataclass(frozen=True, kw_only=True)
class ClassNames:
    """What the classes of a model are called."""

    names: tuple[str, ...] | None
    """Name of each class; None when the weights do not tell."""

    def __getitem__(self, number: int) -> str:
        """Return the name of a class, or its number when it has none."""
        return self.names[number] if self.names else f"class {number}"

    def items(self) -> Iterator[tuple[int, str]]:
        """Yield number and name of each class of objects; none where the weights do not tell."""
        yield from ((k, name) for k, name in enumerate(self.names or ()) if name not in _NONE)

    def number(self, name: str) -> int:
        """Return the number of the class that is called `name`, upper and lower case alike.

        A class without a name is called by its number: "7", or "class 7".

        Raises:
            ConfigError: there is none.
        """
        numbers = {known.lower(): number for number, known in self.items()}
        if name.lower() in numbers:
            return numbers[name.lower()]
        if self.names is None:
            return _plain_number(name)
        close = difflib.get_close_matches(name.lower(), numbers, n=_SHOWN) or list(numbers)[:_SHOWN]
        raise ConfigError(
            f"this model knows no class {name!r}; did you mean {', '.join(close)}? "
            f"({len(numbers)} classes)"
        )


def _plain_number(name: str) -> int:
    digits = name.lower().removeprefix("class").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < _SHOWN + 3):
        raise ConfigError(
            f"the weights of this model have no names of classes, got {name!r}; "
            "give their numbers: 1,2"
        )
    return int(digits)


@dataclass(frozen=True, kw_only=True)
class BoxChoice:
    """Which of the boxes that a detector finds are kept.

    A detector leaves out the least sure ones itself: torchvision's below 0.001 to 0.2, and all but
    the surest 100 to 300 of a picture.
    """

    threshold: Annotated[
        float, Option("Leave out boxes that are less sure: 0 to 1.", metavar="SCORE")
    ] = 0.7
    max_boxes: Annotated[
        int | None, Option("Keep the surest N of a picture.", least=1, metavar="N")
    ] = None
    """None: all."""
    classes: Annotated[
        tuple[str, ...],
        Option("Keep these classes only, as person,dog.", metavar="NAME,NAME"),
    ] = ()
    """Their numbers where the weights have no names; empty means all."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold must lie in 0 to 1, got {self.threshold}")
        check_options(self)

    def numbers(self, class_names: ClassNames) -> frozenset[int] | None:
        """Return the numbers of the classes that are kept; None: all.

        Raises:
            ConfigError: the model knows no such class.
        """
        return frozenset(map(class_names.number, self.classes)) if self.classes else None
