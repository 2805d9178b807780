"""What is wrong with a file, all of it in one go, each with its place."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError

_NEAR: Final = 3
"""Names that may have been meant, at most."""
_BEGINNING: Final = 3
"""Letters that a name begins with which may have been cut short."""
_FEW: Final = 8
"""Names that can all be listed."""


class Problems:
    """Collects what is wrong with a file. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Nothing is wrong yet."""
        self._path = path
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, words: str) -> None:
        """Note what is wrong in a line; 1 is the first."""
        if (line, words) not in self._found:
            self._found.append((line, words))

    def raise_if_any(self) -> None:
        """Raise all that was found, in the order of the file, a line each.

        Raises:
            ConfigError: something is wrong.
        """
        if not self._found:
            return
        lines = [f"{self._path}:{line}: {words}" for line, words in sorted(self._found)]
        if len(lines) == 1:
            raise ConfigError(lines[0])
        raise ConfigError("\n  ".join([f"{len(lines)} problems in {self._path}", *lines]))


def closest(word: str, known: Iterable[str], *, listed_by: str | None = None) -> str:
    """Say which of those that are known was meant; where none is near, all of them.

    Args:
        word: As it was typed.
        known: What there is.
        listed_by: The command that lists them, which is named in place of more than a few.
    """
    names = sorted(known)
    begun = [name for name in names if word and name.startswith(word[:_BEGINNING])]
    near = difflib.get_close_matches(word, names, n=_NEAR) or begun[:_NEAR]
    if near:
        return f"did you mean {' or '.join(near)}?"
    if listed_by and len(names) > _FEW:
        return f"see `{listed_by}`"
    return f"there are {', '.join(names)}"
