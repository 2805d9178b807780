"""Text of numbers and names in sentences, tables and charts."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

_MIN_SHARE: Final = 0.0005
"""Smallest share that rounds to 0.1 %."""
TOO_SMALL: Final = "n too small"
"""Text of a percentile that needs more samples."""


def count(number: int) -> str:
    """`4,500`."""
    return f"{number:,}"


def counted(number: int, word: str) -> str:
    """`1 step`, `2 steps`, `1,234 steps`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def decimal(number: float | None, missing: str = "-") -> str:
    """Three digits, integers from 100: `0`, `0.047`, `3.29`, `69.6`, `1,234`; None is `missing`."""
    if number is None:
        return missing
    if not number:
        return "0"
    magnitude = abs(number)
    if magnitude >= 99.95:
        return f"{number:,.0f}"
    if magnitude >= 9.995:
        return f"{number:.1f}"
    return f"{number:.2f}" if magnitude >= 0.9995 else f"{number:.3f}"


def three_digits(number: float | None) -> str:
    """Three digits at most, integers from 100: `0.05`, `44`, `53.9`, `1,150`; None is `-`."""
    if number is None:
        return "-"
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def milliseconds(number: float | None) -> str:
    """`230 ms`; a missing percentile is `n too small`."""
    return TOO_SMALL if number is None else f"{decimal(number)} ms"


def seconds(number: float) -> str:
    """`0.024 s`, `69.1 s`, `5 min 09 s`, `1 h 02 min`."""
    if number < 0.95:
        return f"{number:.2g} s"
    if number < 119.95:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def percent(share: float) -> str:
    """`97 %`; near 0 and 1 with one more digit: `0.3 %`, `99.7 %`, `<0.1 %`, `>99.9 %`."""
    rounded = f"{100 * share:.0f}"
    if rounded == "0" and share > 0:
        return "<0.1 %" if share < _MIN_SHARE else f"{100 * share:.1f} %"
    if rounded == "100" and share < 1:
        return ">99.9 %" if share > 1 - _MIN_SHARE else f"{100 * share:.1f} %"
    return f"{rounded} %"


def times(factor: float) -> str:
    """`1.3 times`, `140 times`."""
    return f"{factor:.2g} times" if factor < 99.5 else f"{factor:.0f} times"


def listing(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def whole_percent(share: float) -> str:
    """`97 %`, an integer, for sentences."""
    return f"{100 * share:.0f} %"


def fine_percent(share: float) -> str:
    """`12 %`, `3.4 %`: a change without its sign."""
    number = 100 * abs(share)
    return f"{number:,.0f} %" if number >= 9.95 else f"{number:.1f} %"


def megabytes(number: float) -> str:
    """`23.4 MB` of 10**6 bytes."""
    return f"{decimal(number / 1e6)} MB"


def shortened(path: str, width: int) -> str:
    """`…/videos/a.mp4`: the end of a path that is longer than `width`, from a folder on."""
    if len(path) <= width:
        return path
    end = path[len(path) - width + 1 :]
    folder = end.find("/")
    return "…" + (end[folder:] if 0 <= folder < len(end) - 1 else end)


def gibibytes(number: int) -> str:
    """`31.3 GiB` of 2**30 bytes."""
    return f"{decimal(number / 2**30)} GiB"


def ratio(parts: tuple[float, ...]) -> str:
    """`2.9 : 1.0 : 9.7`."""
    return " : ".join(f"{part:,.1f}" for part in parts)


_MAX_LENGTH: Final = 32
"""Characters of a short name."""
_ELLIPSIS: Final = "…"


def short_names(names: Sequence[str]) -> list[str]:
    """Return short names: files without their folders, long names without their middle.

    Equal short names get their index as prefix.
    """
    shorts = [_shorten(name) for name in names]
    return [
        f"{index}: {short}" if shorts.count(short) > 1 else short
        for index, short in enumerate(shorts)
    ]


def _shorten(name: str) -> str:
    short = name if "://" in name or name.startswith("/dev/") else PurePath(name).name
    if len(short) <= _MAX_LENGTH:
        return short
    short = short.replace("://***@", "://")
    end = _MAX_LENGTH * 2 // 3  # addresses of one server differ at the end
    start = _MAX_LENGTH - end - len(_ELLIPSIS)
    return short if len(short) <= _MAX_LENGTH else short[:start] + _ELLIPSIS + short[-end:]
