"""What the columns of a table of videos are called, and the one that holds their paths."""

import os
from collections import Counter
from collections.abc import Iterable
from typing import Final

from headrace.errors import ConfigError
from headrace.video.source import refuse_address
from headrace.video.suffixes import is_video_name

PATH_COLUMNS: Final = ("path", "video", "file", "filename")
"""What the column of paths may be called."""
_KNOWN: Final = frozenset(
    [*PATH_COLUMNS, "label", "class", "start_seconds", "end_seconds", "stream", "weight", "group"]
)
_UNNAMED: Final = ("path", "label", "start_seconds", "end_seconds")


def column_name(head: str) -> str:
    """Return the name of a column: in small letters if it has a meaning then."""
    small = head.strip().lower()
    return small if small in _KNOWN else head.strip()


def named_columns(heads: Iterable[str], where: str) -> list[str]:
    """Return the names of columns as a file has them.

    Raises:
        ConfigError: two are the same.
    """
    names = [column_name(head) for head in heads]
    (name, count), *_ = [*Counter(names).most_common(1), ("", 0)]
    if count > 1:
        raise ConfigError(f"{where} has two columns {name!r}; give each a name of its own")
    return names


def path_column(heads: Iterable[str], where: str) -> str:
    """Return which of the columns holds paths.

    Raises:
        ConfigError: none does, or more than one.
    """
    names = list(heads)
    found = [name for name in names if name in PATH_COLUMNS]
    if len(found) != 1:
        is_one = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        hint = "; separate its values by commas" if is_one else ""
        raise ConfigError(
            f"{where} must have one column of paths, called {', '.join(PATH_COLUMNS[:-1])} or "
            f"{PATH_COLUMNS[-1]}; it has {', '.join(names)[:100] or 'no column'}{hint}"
        )
    return found[0]


def path_of(value: object, where: str) -> str:
    """Return the path that a row names.

    Raises:
        ConfigError: it is none; `where` says which row it is.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"{where} names no video, but {value!r}; give its path")
    try:
        refuse_address(value.strip())
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return value.strip()


def unnamed_columns(first: list[str]) -> list[str] | None:
    """Return what the columns of a file without a line of names mean; None: it has such a line."""
    if not first or not is_video_name(first[0].strip()):
        return None
    return [*_UNNAMED[: len(first)], *(f"column {k}" for k in range(len(_UNNAMED), len(first)))]
