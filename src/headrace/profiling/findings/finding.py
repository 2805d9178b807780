"""Finding: one sentence about a session, its evidence, and the one change to try."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.profiling.number_format import times
from headrace.profiling.provenance import Scalar
from headrace.profiling.stage_records import Role

LoopBound = Literal["step", "loading", "loader workers", "queue transfer"]
Bound = Role | LoopBound | Literal["start-up", "source", "Python overhead"]
"""What sets the pace. Of a training loop: *step* is all work between two batches; *loading* is
making batches in the loop itself; *loader workers* make them in other processes; *queue transfer*
is a batch on its way from a worker to the loop."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something to try, and its expected gain."""

    words: str
    """What to do: an option, or a sentence without a full stop."""
    gain: float | None = None
    """Expected speed-up of the whole, as a factor; None where no figure predicts it."""
    evidence: str | None = None
    """The figure that the gain is computed from, in words."""
    most: float | None = None
    """Upper bound of an unknown gain: the factor at which something else sets the pace."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of a run that make the change, by name; empty where no option does."""

    def __str__(self) -> str:
        """Return the change as a sentence, with its expected gain and the evidence."""
        evidence = f" ({self.evidence})" if self.evidence else ""
        if self.gain is not None:
            return f"{self.words}: about {times(self.gain)} as fast{evidence}."
        bound = ""
        if self.most is not None:
            bound = f", below {times(self.most)}, the bound if this part took no time"
        return f"{self.words}; expected gain not known before it is tried{bound}{evidence}."


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One conclusion from the figures of a session."""

    headline: str
    """One sentence."""
    bound_by: tuple[Bound, ...] = ()
    """What set the pace, the busiest first; several where the figures cannot rank them, empty where
    the figures do not show it."""
    evidence: tuple[str, ...] = ()
    """The figures, one sentence each, also those against the headline."""
    change: str | None = None
    """The one change to try next; by default `advice` in words."""
    advice: Change | None = field(default=None, compare=False)
    """The change as a value; None where it has no option and no figure."""

    def __post_init__(self) -> None:
        if self.change is None and self.advice is not None:
            object.__setattr__(self, "change", str(self.advice))
