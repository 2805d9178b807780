"""What the classes of a model are called."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.errors import ConfigError

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
