"""Finding: one sentence about a session, its evidence, and one change to try."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from headrace.profiling.number_format import times
from headrace.profiling.provenance import Scalar
from headrace.profiling.stage_records import Role

LoopBound = Literal["step", "loading", "loader workers", "queue transfer"]
Bound = Role | LoopBound | Literal["start-up", "source", "Python overhead"]
"""Bottleneck. Of a training loop: *step*: all work between two batches; *loading*: loading batches
in the loop's process; *loader workers*: loading them in workers; *queue transfer*: moving a batch
from a worker to the loop."""


_TELLING: Final = (1.01, 2.0)
"""Between these, the upper bound of a gain is reported."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Change to try, and its expected gain."""

    words: str
    """Option, or sentence without a full stop."""
    gain: float | None = None
    """Expected end-to-end speed-up, as a factor; None: not predicted."""
    is_least: bool = False
    """Whether the gain may be larger."""
    evidence: str | None = None
    """Figure that the gain is computed from, in words."""
    most: float | None = None
    """Upper bound of an unknown gain: the factor at which the bottleneck moves elsewhere. Only a
    small one is reported: no change reaches a large one."""
    effect: str = ""
    """Expected effect, where it is not a speed-up."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of a run, or arguments of a DataLoader, that make the change, by name; empty: none
    does."""

    def __str__(self) -> str:
        """Return the change as a sentence, with its expected gain and the evidence."""
        evidence = f" ({self.evidence})" if self.evidence else ""
        if self.effect:
            return f"{self.words}: {self.effect}{evidence}."
        if self.gain is not None:
            least = "at least" if self.is_least else "about"
            return f"{self.words}: {least} {times(self.gain)} as fast{evidence}."
        bound = ""
        if self.most is not None and _TELLING[0] < self.most < _TELLING[1]:
            bound = f", below {times(self.most)}, the bound if this part took no time"
        return f"{self.words}; expected gain not known before it is tried{bound}{evidence}."

    @property
    def prediction(self) -> str:
        """`2.1 times were predicted`, for a gain that was measured."""
        if self.gain is not None:
            return f"{'at least ' * self.is_least}{times(self.gain)} were predicted"
        if self.most is not None:
            return f"less than {times(self.most)} was the bound, and no gain predicted"
        return "nothing was predicted"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One conclusion from the figures of a session."""

    headline: str
    """One sentence."""
    bound_by: tuple[Bound, ...] = ()
    """Bottlenecks, the busiest first; several if the figures cannot rank them, empty if the figures
    do not show them."""
    cause: str = ""
    """Cause of a slow step: a part of it, such as `checkpointing`, or `model`, `evaluation`, `GIL`,
    `own code`; empty: not known, or the step is not the bottleneck. Of a late rank: the part, data
    or waits for a core."""
    evidence: tuple[str, ...] = ()
    """Figures for and against the headline, one sentence each."""
    change: str | None = None
    """Change to try next; by default `advice` in words."""
    is_corrected: bool = False
    """Whether the figures are without waits for a core, as other programs used the cores."""
    advice: Change | None = field(default=None, compare=False)
    """Change as a value; None: it has no option and no figure."""

    def __post_init__(self) -> None:
        if self.change is None and self.advice is not None:
            object.__setattr__(self, "change", str(self.advice))
