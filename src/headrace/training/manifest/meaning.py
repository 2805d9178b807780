"""What a row of a manifest means: its video, and the segment of it."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.training.manifest.columns import Column, is_missing
from headrace.training.manifest.places import RowPlaces
from headrace.video.columns import path_of
from headrace.video.source import Source
from headrace.video.timebase import exact_number

_TAKEN: Final = frozenset(
    [
        *("frames", "index", "pts_seconds", "is_concealed", "is_pad", "is_repeated", "row"),
        *("original_size", "sample", "to", "pin_memory", "show", "columns"),
        *("clear", "copy", "get", "items", "keys", "pop", "setdefault", "update", "values"),
    ]
)
"""What a batch has already."""

CONSUMED: Final = ("start_seconds", "end_seconds", "stream")
"""Columns that say which part of a file is meant, and do not come with batches."""
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


def check_columns(heads: Iterable[object], where: str) -> None:
    """Raise ConfigError if a column has no name, or one that is taken or unclear."""
    for name in heads:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{where} has a column without a name; name each in the first line")
        if name in _TAKEN:
            raise ConfigError(f"{where} has a column {name!r}, as batches have; rename it")
        if name in _UNCLEAR:
            raise ConfigError(
                f"{where} has a column {name!r}; call it start_seconds or end_seconds if it says, "
                "in seconds, which part of the video is meant, and otherwise something else"
            )


def video_of(row: Mapping[str, Any], path: str, folder: Path, where: str) -> Path | Source:
    """Return the video that a row names in the column `path`, and the stream of it, if it does.

    Raises:
        ConfigError: it names none, or what is no stream; `where` says which row it is.
    """
    found, stream = video_in(row.get(path), folder, where), row.get("stream")
    if is_missing(stream):
        return found
    if isinstance(stream, float) and stream.is_integer():
        stream = int(stream)  # as data frames have whole numbers among empty ones
    try:
        return Source.of(found, stream.strip() if isinstance(stream, str) else stream)
    except ConfigError as error:
        raise ConfigError(f"{where} has a column 'stream': {error}") from error


def video_in(value: object, folder: Path, where: str) -> Path | Source:
    """Return the video that a row names; a relative path starts in `folder`.

    Raises:
        ConfigError: it names none; `where` says which row it is.
    """
    if isinstance(value, Source) and value.has_path:
        return replace(value, path=folder / value.path)
    return folder / path_of(value, where)


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


def check_weights(weights: Column | None, places: RowPlaces) -> None:
    """Raise ConfigError if a weight is no number from 0 up."""
    if weights is None:
        return
    for row, weight in enumerate(weights.tolist()):
        where = places.where(row)
        if exact_number(f"weight of {where}", weight) < 0:
            raise ConfigError(f"weight of {where} is {weight}; it must be >= 0")
