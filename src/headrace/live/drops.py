"""Dropped frames as a timeline: drops that follow each other closely are one event. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.live.events import Event

_APART_NS: Final = 1_000_000_000
"""From the last drop to the next, from which it is another event."""


@dataclass(slots=True)
class _Spell:
    began_ns: int
    last_ns: int
    frames: int


class DropLog:
    """Adds up drops: `add` each as it is seen, then take the `events`."""

    def __init__(self) -> None:
        """Nothing was dropped yet."""
        self._open: dict[tuple[int, str, str], _Spell] = {}
        self._over: list[Event] = []

    def add(self, at_ns: int, *, source: int, stage: str, cause: str, frames: int) -> None:
        """Note that frames ended at a stage, at a moment that is not before the last one."""
        key = source, stage, cause
        spell = self._open.get(key)
        if spell is not None and at_ns - spell.last_ns < _APART_NS:
            spell.last_ns = at_ns
            spell.frames += frames
            return
        if spell is not None:
            self._over.append(_event(key, spell))
        self._open[key] = _Spell(at_ns, at_ns, frames)

    def events(self) -> Iterator[Event]:
        """Everything so far, in the order it began; a spell that goes on as far as it went."""
        found = [*self._over, *(_event(key, spell) for key, spell in self._open.items())]
        yield from sorted(found, key=lambda event: event.at_ns)


def _event(key: tuple[int, str, str], spell: _Spell) -> Event:
    source, stage, cause = key
    seconds = (spell.last_ns - spell.began_ns) / 1e9
    during = f" within {seconds:.1f} s" if spell.frames > 1 else ""
    return Event(
        at_ns=spell.began_ns,
        source=source,
        kind="dropped",
        words=f"{cause} at {stage}{during}",
        frames=spell.frames,
    )
