"""Parsers of sizes and durations, and checks of arguments."""

import re
from math import inf, isnan
from numbers import Integral, Real
from typing import Any, TypeGuard, get_args

from headrace.errors import ConfigError

_UNITS = {
    **{"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40},
}
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_bytes(size: int | str) -> int:
    """Return a size in bytes, from "256MiB", "1.5 GiB", "2GB", "1048576" or a number.

    Raises:
        ConfigError: `size` cannot be parsed, or is below 1 byte.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size), re.ASCII)
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None or float(match[1]) * unit == inf:
        raise ConfigError(f'a size must read like "256MiB", "1.5GB" or 1048576, got {size!r}')
    number = int(float(match[1]) * unit)
    if number < 1:
        raise ConfigError(f"a size must be at least 1 byte, got {size!r}")
    return number


def parse_seconds(text: str) -> float:
    """Return a duration in seconds, from "200ms", "1.5s", "2 min", "12h" or "30d".

    Raises:
        ConfigError: `text` cannot be parsed, or is 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*", str(text), re.ASCII)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds < inf:
        raise ConfigError(
            f'a duration must read like "200ms", "1.5s", "2min", "12h" or "30d", got {text!r}'
        )
    return seconds


def check_integers(minimum: int, **numbers: object) -> None:
    """Check that each argument is an integer >= `minimum`, or None for a default.

    Raises:
        ConfigError: an argument is invalid; has its name and value.
    """
    for name, value in numbers.items():
        if value is not None and not (isinstance(value, Integral) and int(value) >= minimum):
            raise ConfigError(f"{name} must be an integer >= {minimum}, got {value!r}")


def one_of(kind: Any, **values: object) -> None:
    """Check that each argument is one of the choices: `kind` is a `Literal` or a sequence.

    Raises:
        ConfigError: an argument is invalid; has its name and value, and the choices.
    """
    choices = get_args(kind) or tuple(kind)
    for name, value in values.items():
        if value not in choices:
            raise ConfigError(
                f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}"
            )


def check_counts(minimum: int, maximum: int, **numbers: object) -> None:
    """Check that each argument is an integer in [minimum, maximum].

    Raises:
        ConfigError: an argument is invalid; has its name and value.
    """
    for name, value in numbers.items():
        if value is None:
            raise ConfigError(f"{name} must be an integer >= {minimum}, got None")
        check_integers(minimum, **{name: value})
        if isinstance(value, Integral) and int(value) > maximum:
            raise ConfigError(f"{name} must be at most {maximum:,}, got {value}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number, and neither NaN nor a bool."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Real) and not isnan(value)


def check_numbers(minimum: float, **numbers: object) -> None:
    """Check that each argument is a number >= `minimum`.

    Raises:
        ConfigError: an argument is invalid; has its name and value.
    """
    for name, value in numbers.items():
        if not (is_number(value) and value >= minimum):
            raise ConfigError(f"{name} must be a number >= {minimum:g}, got {value!r}")


def check_switches(**switches: object) -> None:
    """Check that each argument is a bool; a text such as "no" would count as True.

    Raises:
        ConfigError: an argument is invalid; has its name and value.
    """
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be True or False, got {value!r}")
