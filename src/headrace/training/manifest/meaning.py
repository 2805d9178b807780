"""What a row of a manifest means: its video, and the segment of it."""

import os
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.training.manifest.columns import Column, is_missing
from headrace.video.timebase import exact_number

_TAKEN: Final = frozenset(
    [
        *("frames", "index", "pts_seconds", "is_concealed", "is_pad", "is_repeated", "row"),
        *("original_size", "sample", "to", "pin_memory", "show", "columns"),
        *("clear", "copy", "get", "items", "keys", "pop", "setdefault", "update", "values"),
    ]
)
"""What a batch has already."""

_PATH: Final = ("path", "video", "file", "filename")
_UNCLEAR: Final = frozenset(
    ["start", "end", "start_time", "end_time", "time_start", "time_end", "start_frame", "end_frame"]
)


def table_of(rows: object, where: str) -> list[dict[str, Any]]:
    """Return rows as a list of dicts.

    Raises:
        ConfigError: they are none, or no rows.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise ConfigError(
            f"rows must be a list of dicts, one for each row, got {type(rows).__name__}; a data "
            'frame gives such with to_dict("records")'
        )
    found: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ConfigError(
                f"row {number} of {where} must be a dict, from column to value, got "
                f"{type(row).__name__}"
            )
        found.append(dict(row))
    if not found:
        raise ConfigError(f"{where} holds no row; give at least one, with a path")
    return found


def named_path(path: object, what: str) -> Path:
    """Return a path that a caller gave.

    Raises:
        ConfigError: it is none; `what` says what it was to be of.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"the path of {what} is needed, got {type(path).__name__}")
    return Path(path)


def path_column(heads: Iterable[str], where: str) -> str:
    """Return which of the columns holds paths.

    Raises:
        ConfigError: none does, or more than one; or a column has no name, or one that is taken.
    """
    names = list(heads)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{where} has a column without a name; name each in the first line")
        if name in _TAKEN:
            raise ConfigError(f"{where} has a column {name!r}, as batches have; rename it")
        if name in _UNCLEAR:
            raise ConfigError(
                f"{where} has a column {name!r}; call it start_seconds or end_seconds if it says, "
                "in seconds, which part of the video is meant, and otherwise something else"
            )
    found = [name for name in names if name in _PATH]
    if len(found) != 1:
        raise ConfigError(
            f"{where} must have one column of paths, called {', '.join(_PATH[:-1])} or "
            f"{_PATH[-1]}; it has {', '.join(names)[:100] or 'no column'}"
        )
    return found[0]


def path_of(value: object, folder: Path, where: str) -> Path:
    """Return the path that a row names; a relative one starts in `folder`.

    Raises:
        ConfigError: it names none.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"{where} names no video, but {value!r}; give its path")
    return folder / value.strip()


def segment_of(row: Mapping[str, Any], where: str) -> tuple[Fraction, Fraction | None]:
    """Return from which second up to which a row goes, exactly as written; None: to the end.

    Raises:
        ConfigError: they are no times, or the end is not after the start.
    """
    start, end = (
        None if is_missing(row.get(name)) else exact_number(f"{name} of {where}", row[name])
        for name in ("start_seconds", "end_seconds")
    )
    start = start or Fraction(0)
    if start < 0 or (end is not None and end <= start):
        until = "the end of the video" if end is None else f"{float(end):g} s"
        raise ConfigError(
            f"{where} begins at {float(start):g} s and ends at {until}; it must begin at 0 s or "
            "later, and end after that"
        )
    return start, end


def check_weights(weights: Column | None, where: str) -> None:
    """Raise ConfigError if a weight is no number from 0 up."""
    if weights is None:
        return
    for row, weight in enumerate(weights.tolist()):
        if exact_number(f"weight of row {row} of {where}", weight) < 0:
            raise ConfigError(f"weight of row {row} of {where} is {weight}; it must be >= 0")
