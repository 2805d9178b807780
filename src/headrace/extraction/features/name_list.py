"""Names in a sentence: the first of them, and how many more there are."""

from collections.abc import Iterable
from typing import Final

_SHOWN: Final = 3


def name_list(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`; `none` where there is none."""
    known = list(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"{', '.join(known[:_SHOWN])}{more}" if known else "none"
