"""The columns of a manifest: numbers, texts and classes, one value for each row."""

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.training.manifest.places import RowPlaces

Column = NDArray[Any]
"""[rows]: int64, float64 with NaN where nothing is said, or text, with "" where nothing is."""

Classes = Mapping[str, Sequence[str]]
"""Column of labels → the names of its classes; a class is known by its place among them."""

_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


def is_missing(value: object) -> bool:
    """Return whether a value says nothing: none, an empty text, or not a number."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_labels(name: str) -> bool:
    """Return whether a column holds labels, by its name: `label`, `class`, `label_colour`."""
    return name in ("label", "class") or name.startswith("label_")


def column_of(name: str, values: Sequence[object], places: RowPlaces) -> Column:
    """Return the values of a column as one array: all as integers, numbers or text.

    Args:
        name: Of the column.
        values: Of each row, as they are written.
        places: Where the rows stand.

    Raises:
        ConfigError: a value is no number and no text, or a label is missing.
    """
    for row, value in enumerate(values):
        if not (value is None or isinstance(value, str | Real)):
            raise ConfigError(
                f"{name} of {places.where(row)} is {type(value).__name__}; a column holds a "
                "number or a text for each row"
            )
        if is_labels(name) and is_missing(value):
            raise ConfigError(f"{places.where(row)} has no {name}; give it one, or leave it out")
    said = [value for value in values if not is_missing(value)]
    if said and len(said) == len(values) and all(map(_is_integer, said)):
        return np.array([int(value) for value in said], np.int64)  # type: ignore[call-overload]
    if said and all(map(_is_number, said)):
        numbers = [math.nan if is_missing(value) else float(str(value)) for value in values]
        return np.array(numbers, np.float64)
    texts = np.empty(len(values), object)
    texts[:] = ["" if is_missing(value) else str(value).strip() for value in values]
    return texts


def check_classes(classes: object) -> None:
    """Raise ConfigError if they are no classes: for each column of labels a list of names."""
    if classes is not None and not isinstance(classes, Mapping):
        raise ConfigError(
            "classes must say for each column of labels which there are, as in "
            f"{{'label': ['cats', 'dogs']}}, got {str(classes)[:80]}"
        )
    for name, names in (classes or {}).items():
        is_names = isinstance(names, list | tuple) and all(isinstance(each, str) for each in names)
        if not is_names or len(set(names)) < len(names):
            raise ConfigError(
                f"classes of {name} must be a list of different texts, got {str(names)[:80]}"
            )


def class_numbers(
    name: str, labels: Column, classes: Sequence[str] | None, places: RowPlaces
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the classes of a column of text, sorted, and the number of each row's, int64 [rows].

    Args:
        name: Of the column.
        labels: The column.
        classes: Those there are; None: those that come.
        places: Where the rows stand.

    Raises:
        ConfigError: a label is none of `classes`.
    """
    names = tuple(sorted(set(labels)) if classes is None else classes)
    number = {each: place for place, each in enumerate(names)}
    for row, label in enumerate(labels):
        if label not in number:
            raise ConfigError(
                f"{name} of {places.where(row)} is {label!r}, which is none of the {len(names)} "
                f"classes that were given: {', '.join(map(str, names))[:120]}"
            )
    return names, np.array([number[each] for each in labels], np.int64)


def _is_integer(value: object) -> bool:
    if isinstance(value, str):
        return _INTEGER.fullmatch(value.strip()) is not None
    return isinstance(value, Integral) and abs(int(value)) < 1 << 63


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _DECIMAL.fullmatch(value.strip()) is not None
    return isinstance(value, Real)
