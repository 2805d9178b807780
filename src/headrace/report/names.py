"""Names of sources, short enough for a column of a table."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

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
