"""A finding: one thing the numbers show, and the one change to try."""

from dataclasses import dataclass
from typing import Literal

from headrace.profiling.stages import Role

Bound = Role | Literal["start-up", "source"]
"""What can set the pace."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something to try, and what it would bring."""

    words: str
    """What to do: an option, or a sentence without an end."""
    gain: float | None = None
    """Times as fast the whole would be; None where no figure tells."""
    rests_on: str | None = None
    """The figure the gain is computed from, in words."""

    def __str__(self) -> str:
        """Say it, with what it is predicted to bring or that this is not known."""
        reason = f" ({self.rests_on})" if self.rests_on else ""
        if self.gain is None:
            return f"{self.words}; what it brings is not known before it is tried{reason}."
        return f"{self.words}: about {self.gain:.2g} times as fast{reason}."


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing the numbers show."""

    headline: str
    """One sentence."""
    bound_by: tuple[Bound, ...] = ()
    """What set the pace, the busiest first; several when the numbers cannot tell them apart,
    empty when they do not show it."""
    evidence: tuple[str, ...] = ()
    """The numbers, one sentence each, also those that speak against it."""
    change: str | None = None
    """The one thing to try next."""


def counted(number: int, word: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def percent(share: float) -> str:
    """`97 %`."""
    return f"{100 * share:.0f} %"


def listing(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
