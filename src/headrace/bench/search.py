"""The highest load that holds: doubled until it breaks, then halved in between. Pure.

level = next_level(tried, scale)  # try it, add what came of it, ask again, until None
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_DOUBLE: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Which loads there are."""

    first: float
    """Where to begin; in [least, most]."""
    least: float
    most: float
    is_whole: bool = False
    """Whether loads are whole numbers, as streams are; else rates, rounded to three digits."""
    close: float = 1.1
    """A load that holds and one that breaks this many times above it are close enough."""
    steps: int = 12
    """Most loads that are tried."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One load, and whether it held."""

    level: float
    holds: bool


def next_level(tried: Sequence[Tried], scale: Scale) -> float | None:
    """Return the load to try next; None when the answer is known, or enough were tried."""
    if not tried:
        return scale.first
    if len(tried) >= scale.steps:
        return None
    held, broken = highest_held(tried), lowest_broken(tried)
    if broken is None:
        assert held is not None
        level = None if held >= scale.most else min(scale.most, held * _DOUBLE)
    elif held is None:
        level = None if broken <= scale.least else max(scale.least, broken / _DOUBLE)
    else:
        level = _between(held, broken, scale)
    return None if level is None else _rounded(level, scale)


def highest_held(tried: Sequence[Tried]) -> float | None:
    """Return the highest load that held below every one that broke; None if none did."""
    broken = lowest_broken(tried)
    held = [each.level for each in tried if each.holds and (broken is None or each.level < broken)]
    return max(held, default=None)


def lowest_broken(tried: Sequence[Tried]) -> float | None:
    """Return the lowest load that broke; None if none did."""
    return min((each.level for each in tried if not each.holds), default=None)


def _between(held: float, broken: float, scale: Scale) -> float | None:
    if broken <= held * scale.close or (scale.is_whole and broken <= held + 1):
        return None
    return (held + broken) / 2 if scale.is_whole else math.sqrt(held * broken)


def _rounded(level: float, scale: Scale) -> float:
    return float(math.floor(level)) if scale.is_whole else float(f"{level:.3g}")
