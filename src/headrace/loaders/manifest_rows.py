"""Rows of a manifest: read from files, with column types, and video and segment of each row."""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, reason_of
from headrace.extras import require
from headrace.video.find_videos import Row, named_columns, path_of, read_table
from headrace.video.source import Source
from headrace.video.timebase import exact_number


@dataclass(frozen=True, kw_only=True, eq=False)
class RowPlaces:
    """Locations of rows, for messages; a subset keeps the line numbers of the file."""

    name: str
    """Name of the file or manifest."""
    unit: Literal["line", "row"]
    """Unit of `number`: lines of a file, from 1, or rows, from 0."""
    number: NDArray[np.int64]
    """int64 [rows]: line or row number."""

    @classmethod
    def of_rows(cls, count: int, name: str) -> "RowPlaces":
        """Return the locations of rows without line numbers."""
        return cls(name=name, unit="row", number=np.arange(count))

    def where(self, row: int) -> str:
        """Return the location of a row: `line 7 of labels.csv`, `row 2 of the manifest`."""
        return f"{self.unit} {self.number[row]} of {self.name}"

    def chosen(self, rows: NDArray[np.int64]) -> "RowPlaces":
        """Return the locations of some rows."""
        return replace(self, number=self.number[rows])


Column = NDArray[Any]
"""[rows]: int64, float64 with NaN for missing values, or text, with "" for missing values."""

Classes = Mapping[str, Sequence[str]]
"""Column of labels → names of its classes; a class number is a position in them."""


class ClassNames(dict[str, tuple[str, ...]]):
    """Column of text labels → names of its classes; KeyError for another column lists all."""

    def __init__(self, names: Mapping[str, tuple[str, ...]], table: str, columns: str) -> None:
        super().__init__(names)
        self._table, self._columns = table, columns

    def __missing__(self, column: str) -> NoReturn:
        raise KeyError(
            f"{self._table} has no column of text labels {column!r}; it has {self._columns}"
        )


_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


def is_missing(value: object) -> bool:
    """Return whether a value is missing: None, blank text, or NaN."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_labels(name: str) -> bool:
    """Return whether a column holds labels, by its name: `label`, `class`, `label_color`."""
    return name in ("label", "class") or name.startswith("label_")


def column_of(name: str, values: Sequence[object], places: RowPlaces) -> Column:
    """Return the values of a column as one array of integers, floats or texts.

    Args:
        name: Name of the column.
        values: Value of each row, as written.
        places: Locations of the rows.

    Raises:
        ConfigError: a value is neither a number nor text, or a label is missing.
    """
    for row, value in enumerate(values):
        if not (value is None or isinstance(value, str | Real)):
            raise ConfigError(
                f"{name} of {places.where(row)} must be a number or text, got "
                f"{type(value).__name__}"
            )
        if is_labels(name) and is_missing(value):
            raise ConfigError(f"{places.where(row)} has no {name}; add it, or remove the row")
    present = [value for value in values if not is_missing(value)]
    if present and len(present) == len(values) and all(map(_is_integer, present)):
        return np.array([int(value) for value in present], np.int64)  # type: ignore[call-overload]
    if present and all(map(_is_number, present)):
        numbers = [math.nan if is_missing(value) else _as_float(value) for value in values]
        return np.array(numbers, np.float64)
    texts = np.empty(len(values), object)
    texts[:] = ["" if is_missing(value) else str(value).strip() for value in values]
    return texts


def _as_float(value: object) -> float:
    return float(value if isinstance(value, bool) else str(value))


def check_classes(classes: object) -> None:
    """Check that `classes` has a list of distinct names for each column: ConfigError."""
    if classes is not None and not isinstance(classes, Mapping):
        raise ConfigError(
            "classes must map columns of labels to names of classes, such as "
            f"{{'label': ['cats', 'dogs']}}, got {str(classes)[:80]}"
        )
    for name, names in (classes or {}).items():
        is_names = isinstance(names, list | tuple) and all(isinstance(text, str) for text in names)
        if not is_names or len(set(names)) < len(names):
            raise ConfigError(
                f"classes of {name} must be a list of distinct texts, got {str(names)[:80]}"
            )


def class_numbers(
    name: str, labels: Column, classes: Sequence[str] | None, places: RowPlaces
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the classes of a column of texts, and the class number of each row, int64 [rows].

    Args:
        name: Name of the column.
        labels: Values of the column.
        classes: Names of the classes; None: the distinct labels, sorted.
        places: Locations of the rows.

    Raises:
        ConfigError: a label is not in `classes`.
    """
    names = tuple(sorted(set(labels)) if classes is None else classes)
    number = {label: position for position, label in enumerate(names)}
    for row, label in enumerate(labels):
        if label not in number:
            raise ConfigError(
                f"{name} of {places.where(row)} is {label!r}, which is not one of the "
                f"{len(names)} classes: {', '.join(map(str, names))[:120]}"
            )
    return names, np.array([number[label] for label in labels], np.int64)


def _is_integer(value: object) -> bool:
    if isinstance(value, str):
        return _INTEGER.fullmatch(value.strip()) is not None
    return isinstance(value, Integral) and abs(int(value)) < 1 << 63


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _DECIMAL.fullmatch(value.strip()) is not None
    return isinstance(value, Real)


_TAKEN: Final = frozenset(
    [
        *("frames", "index", "pts_seconds", "is_concealed", "is_pad", "is_repeated", "row"),
        *("original_size", "sample", "to", "pin_memory", "show", "columns"),
        *("clear", "copy", "get", "items", "keys", "pop", "setdefault", "update", "values"),
    ]
)
"""Names of entries and methods of a batch, which columns cannot have."""

CONSUMED: Final = ("start_seconds", "end_seconds", "stream")
"""Columns that select a part of a file, and are not entries of batches."""
_UNCLEAR: Final = frozenset(
    ["start", "end", "start_time", "end_time", "time_start", "time_end", "start_frame", "end_frame"]
)
"""Column names with an unclear unit."""


def table_of(rows: object, where: str) -> list[dict[str, Any]]:
    """Return rows as a list of dicts.

    Raises:
        ConfigError: `rows` is not a list of dicts, or is empty.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise ConfigError(
            f"rows must be a list of dicts, one per row, got {type(rows).__name__}; for a data "
            'frame use frame.to_dict("records")'
        )
    table: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ConfigError(
                f"row {number} of {where} must be a dict from column to value, got "
                f"{type(row).__name__}"
            )
        table.append(dict(row))
    if not table:
        raise ConfigError(f"{where} has no rows; give at least one")
    return table


def named_path(path: object, what: str) -> Path:
    """Return an argument that must be a path.

    Raises:
        ConfigError: it is not a path; `what` names the file in the message.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"the path of {what} must be a str or Path, got {type(path).__name__}")
    return Path(path)


def check_columns(names: Iterable[object], where: str) -> None:
    """Check that each column has a name that is neither reserved nor unclear: ConfigError."""
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{where} has a column without a name; name it in the first line")
        if name in _TAKEN:
            raise ConfigError(
                f"{where} has a column {name!r}, which is a reserved name of batches; rename it"
            )
        if name in _UNCLEAR:
            raise ConfigError(
                f"{where} has a column {name!r}; if it is the start or end of a segment in "
                "seconds, rename it to start_seconds or end_seconds, otherwise to something else"
            )


def video_of(row: Mapping[str, Any], path: str, folder: Path, where: str) -> Path | Source:
    """Return the video of a row, from the column `path` and the optional column `stream`.

    A relative path starts in `folder`.

    Raises:
        ConfigError: the path is missing, or the stream is invalid; `where` is the row's location.
    """
    value, stream = row.get(path), row.get("stream")
    if isinstance(value, Source) and value.has_path:
        video: Path | Source = replace(value, path=folder / value.path)
    else:
        video = folder / path_of(value, where)
    if is_missing(stream):
        return video
    if isinstance(stream, float) and stream.is_integer():
        stream = int(stream)  # data frames store integers with missing values as floats
    try:
        return Source.of(video, stream.strip() if isinstance(stream, str) else stream)
    except ConfigError as error:
        raise ConfigError(f"{where} has a column 'stream': {error}") from error


def segment_of(row: Mapping[str, Any], where: str) -> tuple[Fraction, Fraction | None]:
    """Return a row's segment [start, end) in seconds, exact as written; end None: end of the video.

    Raises:
        ConfigError: a time is invalid, or the end is not after the start.
    """
    start, end = (
        None if is_missing(row.get(name)) else exact_number(f"{name} of {where}", row[name])
        for name in ("start_seconds", "end_seconds")
    )
    start = start or Fraction(0)
    if start < 0 or (end is not None and end <= start):
        until = "the end of the video" if end is None else f"{float(end):g} s"
        raise ConfigError(
            f"{where} starts at {float(start):g} s and ends at {until}; it must start at 0 s or "
            "later, and end after its start"
        )
    return start, end


def check_weights(weights: Column | None, places: RowPlaces) -> None:
    """Check that each weight is a number >= 0: ConfigError."""
    if weights is None:
        return
    for row, weight in enumerate(weights.tolist()):
        where = places.where(row)
        if exact_number(f"weight of {where}", weight) < 0:
            raise ConfigError(f"weight of {where} is {weight}; it must be >= 0")


SUFFIXES: Final = (".csv", ".tsv", ".txt", ".jsonl", ".parquet")
_MAX_PARQUET_BYTES: Final = 1 << 28
"""Max bytes of a Parquet file."""


def read_rows(path: Path, what: str = "manifest") -> tuple[list[Row], RowPlaces]:
    """Return the rows of a file as dicts, and their locations. Reads the whole file.

    Args:
        path: Path of the file.
        what: Kind of the file, for messages.

    Raises:
        ConfigError: the file cannot be read, or has another extension.
        BackendError: the file is Parquet, and pyarrow is not installed.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        folders = "; for a folder with one subfolder per class use Manifest.of_folders"
        raise ConfigError(
            f"a {what} must end in {', '.join(SUFFIXES)}, got {path}"
            f"{folders if what == 'manifest' else ''}"
        )
    if kind == ".parquet":
        rows = _parquet(path, what)
        return rows, RowPlaces.of_rows(len(rows), str(path))
    table = read_table(path, what)
    lines = np.array(table.lines, np.int64)
    return table.rows, RowPlaces(name=table.name, unit="line", number=lines)


def _parquet(path: Path, what: str) -> list[Row]:
    with require("parquet", f"the {what} {path}", "write it as CSV or JSON lines"):
        import pyarrow
        import pyarrow.parquet
    try:
        size = path.stat().st_size
        if size <= _MAX_PARQUET_BYTES:
            table = pyarrow.parquet.read_table(path, memory_map=False)
            headers = named_columns(table.column_names, str(path))
            rows: list[Row] = table.rename_columns(headers).to_pylist()
            return rows
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read the {what} {path}: {reason}; give a file") from error
    except (pyarrow.ArrowException, ValueError) as error:
        raise ConfigError(f"{path} is not a Parquet file: {str(error)[:100]}") from error
    raise ConfigError(f"{path} is larger than {_MAX_PARQUET_BYTES >> 20} MiB; split the {what}")
