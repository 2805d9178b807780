"""Numbers and names as people read them, in sentences, tables and charts."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

_PER_MILLE: Final = 0.0005
"""What shows as 0.1 % at least."""
TOO_SMALL: Final = "n too small"
"""Stands where a percentile would need more samples."""


def count(number: int) -> str:
    """`4,500`."""
    return f"{number:,}"


def counted(number: int, word: str) -> str:
    """`1 step`, `2 steps`, `1,234 steps`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def decimal(number: float | None, missing: str = "-") -> str:
    """Three digits, whole from 100 up: `0`, `0.047`, `3.29`, `69.6`, `1,234`; None is `missing`."""
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
    """`97 %`; where that would say none or all of what is neither, `0.3 %` and `99.7 %`."""
    whole = f"{100 * share:.0f}"
    if whole == "0" and share > 0:
        return "<0.1 %" if share < _PER_MILLE else f"{100 * share:.1f} %"
    if whole == "100" and share < 1:
        return ">99.9 %" if share > 1 - _PER_MILLE else f"{100 * share:.1f} %"
    return f"{whole} %"


def times(factor: float) -> str:
    """`1.3 times`, `140 times`."""
    return f"{factor:.2g} times" if factor < 99.5 else f"{factor:.0f} times"


def listing(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def whole_percent(share: float) -> str:
    """`97 %`, to the whole number, as sentences give it."""
    return f"{100 * share:.0f} %"


def megabytes(number: float) -> str:
    """`23.4 MB`, a million bytes each."""
    return f"{decimal(number / 1e6)} MB"


def shortened(path: str, width: int) -> str:
    """`…/videos/a.mp4`: the end of a path that is longer than `width`, from a folder on."""
    if len(path) <= width:
        return path
    end = path[len(path) - width + 1 :]
    folder = end.find("/")
    return "…" + (end[folder:] if 0 <= folder < len(end) - 1 else end)


def gibibytes(number: int) -> str:
    """`31.3 GiB`, 2**30 bytes each."""
    return f"{decimal(number / 2**30)} GiB"


def ratio(parts: tuple[float, ...]) -> str:
    """`2.9 : 1.0 : 9.7`."""
    return " : ".join(f"{part:,.1f}" for part in parts)


_MOST: Final = 32
_MORE: Final = "…"


def short_names(names: Sequence[str]) -> list[str]:
    """Return a name for each, different where the sources are: a file without its folders, the
    middle of what is long left out, the place in front where two would be the same.
    """
    shorts = [_short(name) for name in names]
    return [
        f"{number}: {short}" if shorts.count(short) > 1 else short
        for number, short in enumerate(shorts)
    ]


def _short(name: str) -> str:
    short = name if "://" in name or name.startswith("/dev/") else PurePath(name).name
    if len(short) <= _MOST:
        return short
    short = short.replace("://***@", "://")
    end = _MOST * 2 // 3  # what tells cameras of one address apart stands at its end
    start = _MOST - end - len(_MORE)
    return short if len(short) <= _MOST else short[:start] + _MORE + short[-end:]
