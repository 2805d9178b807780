"""What is wrong with a file, all of it in one go, each with its place."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import ConfigError


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


def closest(word: str, known: Iterable[str]) -> str:
    """Say which of those that are known was meant, or all of them where none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=3)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
