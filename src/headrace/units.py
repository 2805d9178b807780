"""Values as people write them: sizes in bytes, spans of time, counts, one of several words."""

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
    """Return a number of bytes: of "256MiB", "1.5 GiB", "2GB", "1048576", or a number itself.

    Raises:
        ConfigError: it is no such size, or below 1.
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
    """Return the seconds that "200ms", "1.5s", "2 min", "12h" or "30d" are.

    Raises:
        ConfigError: it is no such span of time, or 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*", str(text), re.ASCII)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds < inf:
        raise ConfigError(
            f'a span of time must read like "200ms", "1.5s", "2min", "12h" or "30d", got {text!r}'
        )
    return seconds


def check_integers(least: int, **numbers: object) -> None:
    """Check that each is an integer from `least` up, or None, which is for the callee to choose.

    Raises:
        ConfigError: one is not; says which, and what it is.
    """
    for name, value in numbers.items():
        if value is not None and not (isinstance(value, Integral) and int(value) >= least):
            raise ConfigError(f"{name} must be an integer >= {least}, got {value!r}")


def one_of(kind: Any, **values: object) -> None:
    """Check that each value is one of a `Literal`'s, or of a sequence of them.

    Raises:
        ConfigError: one is not; names it, what is possible, and what was given.
    """
    choices = get_args(kind) or tuple(kind)
    for name, value in values.items():
        if value not in choices:
            raise ConfigError(
                f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}"
            )


def check_counts(least: int, most: int, **numbers: object) -> None:
    """Check that each is an integer from `least` up to `most`.

    Raises:
        ConfigError: one is not; says which, and what it is.
    """
    for name, value in numbers.items():
        if value is None:
            raise ConfigError(f"{name} must be an integer >= {least}, got None")
        check_integers(least, **{name: value})
        if isinstance(value, Integral) and int(value) > most:
            raise ConfigError(f"{name} must be at most {most:,}, got {value}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether it is a real number: no NaN, no True or False, and no text."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Real) and not isnan(value)


def check_numbers(least: float, **numbers: object) -> None:
    """Check that each is a number from `least` up, such as a tolerance.

    Raises:
        ConfigError: one is not; says which, and what it is.
    """
    for name, value in numbers.items():
        if not (is_number(value) and value >= least):
            raise ConfigError(f"{name} must be a number >= {least:g}, got {value!r}")


def check_switches(**switches: object) -> None:
    """Check that each is True or False.

    Raises:
        ConfigError: one is not, such as "no", which would count as True; says which.
    """
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be True or False, got {value!r}")
