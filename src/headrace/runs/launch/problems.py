"""Problems of a file, collected with line numbers and raised together."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError, did_you_mean

_PREFIX: Final = 3
"""Equal leading letters that make a known name similar."""
_FEW: Final = 8
"""Max names that a message lists completely."""


class Problems:
    """Collector of the problems of a file. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Start without problems."""
        self._path = path
        self._problems: list[tuple[int, str]] = []

    def add(self, line: int, words: str) -> None:
        """Add a problem of a line, counted from 1."""
        if (line, words) not in self._problems:
            self._problems.append((line, words))

    def raise_if_any(self) -> None:
        """Raise all problems in one error, by line.

        Raises:
            ConfigError: there is a problem.
        """
        if not self._problems:
            return
        lines = [f"{self._path}:{line}: {words}" for line, words in sorted(self._problems)]
        if len(lines) == 1:
            raise ConfigError(lines[0])
        raise ConfigError("\n  ".join([f"{len(lines)} problems in {self._path}", *lines]))


def closest(word: str, known: Iterable[str], *, listed_by: str | None = None) -> str:
    """Return advice for a mistyped name: similar known names, or else all of them.

    Args:
        word: Name as typed.
        known: Known names.
        listed_by: Command that lists the names, for long lists.
    """
    names = sorted(known)
    prefixed = [name for name in names if word and name.startswith(word[:_PREFIX])]
    if advice := did_you_mean(word, names, instead=prefixed):
        return advice
    if listed_by and len(names) > _FEW:
        return f"see `{listed_by}`"
    return f"give one of {', '.join(names)}"
