"""What is done when frames come faster than they are worked on. Pure, but for the clock's time."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal

from headrace.errors import ConfigError
from headrace.live.source import LiveFrame
from headrace.runtime.clock import Clock
from headrace.runtime.grouping import Group, Grouping
from headrace.runtime.item import Item
from headrace.units import check_integers, one_of

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


OverloadName = Literal["auto", "keep-all", "keep-last"]
"""`keep-all`: sources wait, and latency grows; `keep-last`: newer frames replace older ones;
`auto`: `keep-last` for live sources, `keep-all` for a file at full speed."""

STALE: Final = "stale"
"""Why a frame is dropped that is older than it may be."""
_DEFAULT_QUEUE: Final = {"keep-all": 2, "keep-last": 1}
_LASTS_NS: Final = 1_000_000_000
"""Of drops that follow each other closer than this, from which they are an overload."""
_CALM_NS: Final = 10_000_000_000
"""Without a drop, after which an overload is over."""
MOST_IN_FLIGHT: Final = 2
"""Batches between the first queue and the results: one in the model, one that is made ready."""


@dataclass(frozen=True, kw_only=True)
class DropPolicy:
    """What is done when frames are too many."""

    keeps_all: bool
    """Every frame, however late; or the freshest ones."""
    queue: int
    """Frames of each source that may wait for their turn."""
    max_staleness_seconds: float | None
    """A frame that is older at the border of a stage ends there; None: it may be of any age."""

    @classmethod
    def chosen(
        cls,
        name: OverloadName,
        *,
        is_live: bool,
        queue: int | None = None,
        max_staleness_seconds: float | None = None,
    ) -> "DropPolicy":
        """Return what a name means.

        Args:
            name: As the user chose it.
            is_live: Frames come at a pace of their own, not as fast as they are taken.
            queue: Frames of each source that may wait; None means 1 where the freshest are kept,
                since each further one makes all of them older, and 2 where all are.
            max_staleness_seconds: See the field.

        Raises:
            ConfigError: there is no such name; frames of a file at full speed cannot be too many
                or too old; a number is out of range.
        """
        one_of(OverloadName, overload=name)
        if not is_live and (name == "keep-last" or max_staleness_seconds is not None):
            raise ConfigError(
                "a file at full speed waits for the model, so its frames are never too many or too "
                "old; leave out --overload keep-last and --max-staleness, or give --pace realtime"
            )
        check_integers(1, queue=queue)
        if max_staleness_seconds is not None and not max_staleness_seconds > 0:
            raise ConfigError(f"max_staleness must be > 0, got {max_staleness_seconds} s")
        meant = ("keep-last" if is_live else "keep-all") if name == "auto" else name
        return cls(
            keeps_all=meant == "keep-all",
            queue=queue or _DEFAULT_QUEUE[meant],
            max_staleness_seconds=max_staleness_seconds,
        )

    def in_flight(self, work_seconds: float) -> int:
        """Return how many batches may be on their way at once, when one costs so much work.

        With two, the second is made ready while the first is in the model; but it was fresh when
        the first began, so it comes out about twice the work old. Where that is too old, one.
        """
        limit = self.max_staleness_seconds
        return MOST_IN_FLIGHT if limit is None or 2 * work_seconds <= limit else 1


@dataclass(frozen=True, kw_only=True)
class AgeLimit:
    """Tells what is too old, at the moment it is asked."""

    seconds: float | None
    clock: Clock

    def is_over(self, arrived_ns: int, ahead_seconds: float = 0.0) -> bool:
        """Whether what arrived then is older than it may be, or will be after so much work.

        No more than half of the limit counts as work ahead: a single slow batch, such as the first
        one, must not keep all others from being tried.
        """
        if self.seconds is None:
            return False
        ahead_seconds = min(ahead_seconds, self.seconds / 2)
        return self.clock.now_ns() - arrived_ns > (self.seconds - ahead_seconds) * 1e9


class OverloadWatch:
    """Tells when frames begin to be too many, and when they no longer are.

    A drop now and then, as at the start, is no overload; and one that comes and goes is told once.
    """

    def __init__(self) -> None:
        """Nothing was dropped yet."""
        self._first_ns = self._last_ns = 0
        self._is_over = True
        self.frames = 0
        """Frames that the latest overload cost so far."""

    def drop(self, at_ns: int, where: str, frames: int) -> str | None:
        """Take in frames that were dropped; return words where an overload begins with them.

        Args:
            at_ns: When.
            where: Cause and stage: `overflow at decode`.
            frames: How many.
        """
        if self._is_over and at_ns - self._last_ns >= _LASTS_NS:
            self._first_ns, self.frames = at_ns, 0
        self._last_ns = at_ns
        self.frames += frames
        seconds = (at_ns - self._first_ns) / 1e9
        if not self._is_over or at_ns - self._first_ns < _LASTS_NS:
            return None
        self._is_over = False
        return (
            "overload: frames come faster than they are worked on; "
            f"{self.frames} dropped in {seconds:.1f} s ({where})"
        )

    def end(self, now_ns: int) -> str | None:
        """Return words where an overload is over by now."""
        if self._is_over or now_ns - self._last_ns < _CALM_NS:
            return None
        self._is_over = True
        seconds = (self._last_ns - self._first_ns) / 1e9
        return (
            f"overload is over: no frame dropped for {_CALM_NS / 1e9:g} s; "
            f"{self.frames} were dropped in {seconds:.1f} s"
        )


class FairAdmission:
    """Who may take a place where there are too few, such as that of a clip under way.

    A source that got none has a claim: each other one gives way to it once, in the order of claims.
    So none goes without for ever, whatever the rates and phases of the others; and the claim of a
    source that does not come again costs each other one a single clip.
    """

    def __init__(self) -> None:
        """Nobody has a claim."""
        self._gave_way: dict[int, set[int]] = {}  # oldest claim first

    def admits(self, source: int, take: Callable[[], bool]) -> bool:
        """Whether a source gets a place now.

        Args:
            source: Who asks.
            take: Takes a place if there is one; says so.
        """
        older = list(takewhile(lambda other: other != source, self._gave_way))
        is_its_turn = all(source in self._gave_way[other] for other in older)
        for other in older:
            self._gave_way[other].add(source)
        if is_its_turn and take():
            self._gave_way.pop(source, None)
            return True
        self._gave_way[source] = set()
        return False


class StaleFilter:
    """A grouping of frames that first lets go those that are too old: a `Grouping`."""

    def __init__(self, inner: Grouping[LiveFrame], limit: AgeLimit) -> None:
        """`inner` groups the others."""
        self._inner = inner
        self._limit = limit

    def take(self, item: Item[LiveFrame]) -> Iterator[Group[LiveFrame]]:
        """See `Grouping.take`."""
        if self._limit.is_over(item.value.arrived_ns):
            yield Group((item,), item.parts, cause=STALE)
        else:
            yield from self._inner.add(item)

    def flush(self) -> Iterator[Group[LiveFrame]]:
        """See `Grouping.flush`."""
        return self._inner.flush()
