"""A finding: one thing the numbers show, and the one change to try."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.profiling.number_format import times
from headrace.profiling.provenance import Scalar
from headrace.profiling.stage_records import Role

LoopBound = Literal["step", "loading", "loader workers", "hand-over"]
Bound = Role | LoopBound | Literal["start-up", "source", "Python overhead"]
"""What can set the pace. Of a training loop: *step* is all that the loop does between its batches;
*loading* is done by the loop itself, when it asks; *loader workers* do it for the loop; *hand-over*
is a batch on its way from them."""

_BOUND = ", and less than {} as fast, the bound of this part taking no time at all"


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something to try, and what it would bring."""

    words: str
    """What to do: an option, or a sentence without an end."""
    gain: float | None = None
    """Times as fast the whole would be; None where no figure tells."""
    rests_on: str | None = None
    """The figure the gain is computed from, in words."""
    most: float | None = None
    """Where no figure tells the gain: what it cannot exceed, since something else comes next."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """The options of a run that make the change, by their names; empty where a run cannot."""

    def __str__(self) -> str:
        """Say it, with what it is predicted to bring or that this is not known."""
        reason = f" ({self.rests_on})" if self.rests_on else ""
        if self.gain is None:
            most = "" if self.most is None else _BOUND.format(times(self.most))
            return f"{self.words}; what it brings is not known before it is tried{most}{reason}."
        return f"{self.words}: about {times(self.gain)} as fast{reason}."


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
    """The one thing to try next; with `advice` it is that in words."""
    advice: Change | None = field(default=None, compare=False)
    """The same as a value; None where it is no option and has no figure."""

    def __post_init__(self) -> None:
        if self.change is None and self.advice is not None:
            object.__setattr__(self, "change", str(self.advice))
