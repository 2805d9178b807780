"""Times as tables write them: which column holds them, in which unit, and as seconds."""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal

from headrace.errors import ConfigError

TimeUnit = Literal["s", "ms", "us", "ns"]

PER_SECOND: Mapping[str, int] = MappingProxyType({"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9})
"""Unit → how many make a second."""
_WORDS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_UNITS: Mapping[str, Any] = MappingProxyType(
    _WORDS | {f"timestamp_{unit}": unit for unit in PER_SECOND}
)
_UNSAID = "timestamp"


def has_time(heads: Iterable[str]) -> bool:
    """Return whether one of the columns is called as times are."""
    return any(head == _UNSAID or head in _UNITS for head in heads)


def time_column(heads: Iterable[str], unit: TimeUnit | None, where: str) -> tuple[str, TimeUnit]:
    """Return the column of times among `heads`, and their unit.

    Raises:
        ConfigError: there is none, or two; or nothing says the unit, or two things do.
    """
    names = list(heads)
    found = [name for name in names if name == _UNSAID or name in _UNITS]
    if len(found) != 1:
        raise ConfigError(
            f"{where} must have one column of times, called {', '.join(_UNITS)}, or timestamp with "
            f"a unit given; it has {', '.join(found) or ', '.join(map(str, names))[:100]}"
        )
    name = found[0]
    said: TimeUnit | None = _UNITS.get(name, unit)
    if said is None:
        raise ConfigError(
            f"{where} has times in the column timestamp, which does not say their unit; give "
            f"unit=, one of {', '.join(PER_SECOND)}"
        )
    if unit not in (None, said):
        raise ConfigError(f"{where} has times in {name}, and unit={unit!r} was given; leave it out")
    return name, said


def seconds_of(value: object, unit: TimeUnit, where: str) -> float:
    """Return a time as it is written, in seconds: the nearest float64.

    Raises:
        ConfigError: it is no finite number; `where` says which.
    """
    try:
        if isinstance(value, str):
            value = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError
        exact = int(value) if isinstance(value, Integral) else float(value)
        seconds = exact / PER_SECOND[unit]
        if not math.isfinite(seconds):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{where} must be a number of {unit}, got {str(value)[:40]!r}") from error
    return seconds


def frame_number(value: Any, where: str) -> int:
    """Return the number of a frame as it is written.

    Raises:
        ConfigError: it is no whole number from 0 on; `where` says whose it is.
    """
    try:
        number = int(float(value))
        if isinstance(value, bool) or number != float(value) or number < 0:
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"frame of {where} must be a whole number from 0 on, got {value!r}"
        ) from error
