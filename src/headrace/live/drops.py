"""Dropped frames as a timeline: drops that follow each other closely are one spell. Pure."""

from collections import deque
from dataclasses import dataclass
from typing import Final

_APART_NS: Final = 1_000_000_000
"""From the last drop to the next, from which it is another spell."""
_SPELLS_KEPT: Final = 20_000
"""Some 5 MB: a run that drops now and then for weeks fills no memory."""


@dataclass(kw_only=True, slots=True, eq=False)
class DropSpell:
    """Frames of one source that ended at one stage for one cause, closely one after the other."""

    source: int | None
    """None: several sources' together."""
    stage: str
    cause: str
    began_ns: int
    """When the first was seen to have ended."""
    last_ns: int
    frames: int

    @property
    def words(self) -> str:
        """Say it in a few words: `overflow at decode, over 1.4 s`."""
        seconds = (self.last_ns - self.began_ns) / 1e9
        return f"{self.cause} at {self.stage}" + (
            f", over {seconds:.1f} s" if seconds >= 0.1 else ""
        )


class DropLog:
    """Adds up drops: `add` each as it is seen, then read the `spells`."""

    def __init__(self) -> None:
        """Nothing was dropped yet."""
        self.spells: deque[DropSpell] = deque(maxlen=_SPELLS_KEPT)
        """The latest, in the order they began; the last of each kind may go on."""
        self._open: dict[tuple[int | None, str, str], DropSpell] = {}

    def add(self, at_ns: int, *, source: int | None, stage: str, cause: str, frames: int) -> None:
        """Note that frames ended at a stage, at a moment that is not before the last one."""
        spell = self._open.get((source, stage, cause))
        if spell is not None and at_ns - spell.last_ns < _APART_NS:
            spell.last_ns = at_ns
            spell.frames += frames
            return
        spell = DropSpell(
            source=source, stage=stage, cause=cause, began_ns=at_ns, last_ns=at_ns, frames=frames
        )
        self._open[source, stage, cause] = spell
        self.spells.append(spell)
