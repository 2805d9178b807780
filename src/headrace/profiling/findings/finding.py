"""Finding: one conclusion about a session, its evidence, and one change to try."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from headrace.profiling.number_format import times
from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import Role

LoopBound = Literal["step", "loading", "loader workers", "queue transfer"]
Bound = Role | LoopBound | Literal["start-up", "source", "Python overhead"]
"""Bottleneck. In a training loop: *step*: the work between two batches; *loading*: loading batches
in the loop's process; *loader workers*: loading batches in workers; *queue transfer*: transfer of
batches from the workers to the loop."""


_REPORTED_BOUNDS: Final = (1.01, 2.0)
"""Range (exclusive) of upper bounds of a gain that are reported."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Change to try, and its expected gain."""

    words: str
    """Option, or sentence without a period."""
    gain: float | None = None
    """Expected end-to-end speed-up, as a factor; None: not predicted."""
    is_least: bool = False
    """Whether `gain` is a lower bound."""
    is_most: bool = False
    """Whether `gain` is an upper bound: on a busy machine."""
    evidence: str | None = None
    """Figures that the gain is computed from, as text."""
    most: float | None = None
    """Upper bound of a gain that is not predicted: beyond it, the bottleneck is elsewhere. Large
    bounds are not reported, because no change reaches them."""
    effect: str = ""
    """Expected effect if it is not a speed-up."""
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """Options of a run, or arguments of a DataLoader, that make the change: name → value. Empty: no
    option makes it."""

    def __str__(self) -> str:
        """Return the change as a sentence, with expected gain and evidence."""
        evidence = f" ({self.evidence})" if self.evidence else ""
        if self.effect:
            return f"{self.words}: {self.effect}{evidence}."
        if self.gain is not None:
            return f"{self.words}: {self._bound or 'about'} {times(self.gain)} as fast{evidence}."
        bound = ""
        if self.most is not None and _REPORTED_BOUNDS[0] < self.most < _REPORTED_BOUNDS[1]:
            bound = f", below {times(self.most)}, the bound if this part took no time"
        return f"{self.words}; expected gain not known before it is tried{bound}{evidence}."

    @property
    def _bound(self) -> str:
        return "at least" if self.is_least else "at most" if self.is_most else ""

    @property
    def prediction(self) -> str:
        """`2.1 times were predicted`, to compare with a measured gain."""
        if self.gain is not None:
            return f"{self._bound} {times(self.gain)} were predicted".strip()
        if self.most is not None:
            return f"an upper bound of {times(self.most)} was predicted"
        return "no gain was predicted"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One conclusion from the figures of a session."""

    headline: str
    """One sentence."""
    bound_by: tuple[Bound, ...] = ()
    """Bottlenecks, the busiest first; several if they cannot be ranked, empty if none is known."""
    cause: str = ""
    """Cause of a slow step: one of its parts, for example `checkpointing`, or `model`,
    `evaluation`, `GIL`, `own code`. Cause of slow loading: `__getitem__` or `collate_fn`. Cause of
    a late rank: one of the parts, data, or waits for a core. Cause of drops: `stale`. Empty: not
    known."""
    evidence: tuple[str, ...] = ()
    """Figures for and against the headline, one sentence each."""
    change: str | None = None
    """Sentence with the change to try next, and lines of commands; by default the text of
    `advice`."""
    is_corrected: bool = False
    """Whether waits for a core are subtracted from the figures, because the machine was busy."""
    advice: Change | None = field(default=None, compare=False)
    """The change as a value; None: the change has neither an option nor a figure."""

    def __post_init__(self) -> None:
        if self.change is None and self.advice is not None:
            object.__setattr__(self, "change", str(self.advice))
