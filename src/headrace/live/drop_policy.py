"""Drop policy of live runs: queue lengths, staleness, overload detection, fair admission."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal

from headrace.errors import ConfigError
from headrace.live.live_source import LiveFrame
from headrace.runtime.clock import Clock
from headrace.runtime.stage import Group, Grouping, Item
from headrace.units import check_integers, one_of

_SPELL_GAP_NS: Final = 1_000_000_000
"""Nanoseconds without a drop that end a spell."""
_MAX_SPELLS: Final = 20_000
"""Max stored spells, the latest: about 5 MB."""


@dataclass(kw_only=True, slots=True, eq=False)
class DropSpell:
    """Consecutive drops of one source at one stage, with one cause."""

    source: int | None
    """None: items of several sources together."""
    stage: str
    cause: str
    began_ns: int
    """Time of the first drop."""
    last_ns: int
    frames: int

    @property
    def words(self) -> str:
        """Description: `overflow at decode, over 1.4 s`."""
        seconds = (self.last_ns - self.began_ns) / 1e9
        return f"{self.cause} at {self.stage}" + (
            f", over {seconds:.1f} s" if seconds >= 0.1 else ""
        )


class DropLog:
    """Log of drops, grouped into spells."""

    def __init__(self) -> None:
        """Start without drops."""
        self.spells: deque[DropSpell] = deque(maxlen=_MAX_SPELLS)
        """Latest spells, by first drop; the last of each source, stage and cause may continue."""
        self._open: dict[tuple[int | None, str, str], DropSpell] = {}

    def add(self, at_ns: int, *, source: int | None, stage: str, cause: str, frames: int) -> None:
        """Add dropped frames; times must not decrease."""
        spell = self._open.get((source, stage, cause))
        if spell is not None and at_ns - spell.last_ns < _SPELL_GAP_NS:
            spell.last_ns = at_ns
            spell.frames += frames
            return
        spell = DropSpell(
            source=source, stage=stage, cause=cause, began_ns=at_ns, last_ns=at_ns, frames=frames
        )
        self._open[source, stage, cause] = spell
        self.spells.append(spell)


OverloadName = Literal["auto", "keep-all", "keep-last"]
"""`keep-all`: sources wait, and latency grows. `keep-last`: newer frames replace older ones.
`auto`: `keep-last` for live sources, `keep-all` for files at full speed."""

STALE: Final = "stale"
"""Drop cause of frames above the max age."""
_DEFAULT_QUEUE: Final = {"keep-all": 2, "keep-last": 1}
"""Policy → waiting frames per source."""
_OVERLOAD_NS: Final = 1_000_000_000
"""Min nanoseconds of consecutive drops that are an overload; also the max gap between the drops."""
_RECOVERY_NS: Final = 10_000_000_000
"""Nanoseconds without a drop that end an overload."""
MAX_IN_FLIGHT: Final = 2
"""Max batches after the first queue: one in the model, one in preprocessing."""


@dataclass(frozen=True, kw_only=True)
class DropPolicy:
    """Policy for frames that arrive faster than they are processed."""

    keeps_all: bool
    """Whether every frame is kept, however late; else only the newest frames."""
    queue: int
    """Max waiting frames per source."""
    max_staleness_seconds: float | None
    """Max age of a frame at the start of each stage; None: no limit."""

    @property
    def name(self) -> OverloadName:
        """`keep-all` or `keep-last`."""
        return "keep-all" if self.keeps_all else "keep-last"

    @classmethod
    def from_name(
        cls,
        name: OverloadName,
        *,
        is_live: bool,
        queue: int | None = None,
        max_staleness_seconds: float | None = None,
    ) -> "DropPolicy":
        """Return the policy with a name.

        Args:
            name: Name, as given by the user.
            is_live: Whether frames arrive in real time.
            queue: Max waiting frames per source. None: 2 with `keep-all`, 1 with `keep-last`, where
                each waiting frame adds latency.
            max_staleness_seconds: See the field.

        Raises:
            ConfigError: the name is unknown; `keep-last` or an age limit is given for files at full
                speed; a number is out of range.
        """
        one_of(OverloadName, overload=name)
        if not is_live and (name == "keep-last" or max_staleness_seconds is not None):
            raise ConfigError(
                "files at full speed wait for the model, so no frame is dropped; leave out "
                "--overload keep-last and --max-staleness, or give --pace realtime"
            )
        check_integers(1, queue=queue)
        if max_staleness_seconds is not None and not max_staleness_seconds > 0:
            raise ConfigError(f"max_staleness must be > 0, got {max_staleness_seconds} s")
        effective = ("keep-last" if is_live else "keep-all") if name == "auto" else name
        return cls(
            keeps_all=effective == "keep-all",
            queue=queue or _DEFAULT_QUEUE[effective],
            max_staleness_seconds=max_staleness_seconds,
        )

    def in_flight(self, work_seconds: float) -> int:
        """Return the max number of batches in flight, 1 or 2, for batches of `work_seconds` each.

        With two, one batch is preprocessed while the other is in the model, and completes at an age
        of about twice the work. If that exceeds the max age, the number is 1.
        """
        limit = self.max_staleness_seconds
        return MAX_IN_FLIGHT if limit is None or 2 * work_seconds <= limit else 1


@dataclass(frozen=True, kw_only=True)
class AgeLimit:
    """Max age of frames, by a clock."""

    seconds: float | None
    """None: no limit."""
    clock: Clock

    def is_over(self, arrived_ns: int, ahead_seconds: float = 0.0) -> bool:
        """Return whether a frame exceeds the limit now, or after `ahead_seconds` of work.

        `ahead_seconds` counts up to half of the limit: later batches must still run after one slow
        batch, such as the first.
        """
        if self.seconds is None:
            return False
        ahead_seconds = min(ahead_seconds, self.seconds / 2)
        return self.clock.now_ns() - arrived_ns > (self.seconds - ahead_seconds) * 1e9


class OverloadDetector:
    """Detector of the start and end of an overload.

    Occasional drops are not an overload; an intermittent overload is reported once.
    """

    def __init__(self) -> None:
        """Start without drops."""
        self._first_ns = self._last_ns = 0
        self._is_over = True
        self.frames = 0
        """Frames dropped in the latest overload."""

    def drop(self, at_ns: int, where: str, frames: int) -> str | None:
        """Add dropped frames; return the message of an overload that starts with them, else None.

        Args:
            at_ns: Time of the drop.
            where: Cause and stage: `overflow at decode`.
            frames: Number of frames.
        """
        if self._is_over and at_ns - self._last_ns >= _OVERLOAD_NS:
            self._first_ns, self.frames = at_ns, 0
        self._last_ns = at_ns
        self.frames += frames
        seconds = (at_ns - self._first_ns) / 1e9
        if not self._is_over or at_ns - self._first_ns < _OVERLOAD_NS:
            return None
        self._is_over = False
        return (
            "frames arrive faster than they are processed; "
            f"{self.frames} dropped in {seconds:.1f} s ({where})"
        )

    def end(self, now_ns: int) -> str | None:
        """Return the message of an overload that ended, else None."""
        if self._is_over or now_ns - self._last_ns < _RECOVERY_NS:
            return None
        self._is_over = True
        seconds = (self._last_ns - self._first_ns) / 1e9
        return (
            f"overload ended: no frame dropped for {_RECOVERY_NS / 1e9:g} s; "
            f"{self.frames} dropped in {seconds:.1f} s"
        )


class FairAdmission:
    """Fair admission of sources to scarce permits, such as the permits of clips in flight.

    A source that gets no permit has a claim. Each other source yields to each claim once, the
    oldest claim first. So no source starves, whatever the rates of the others; a claim of a silent
    source costs each other source one clip.
    """

    def __init__(self) -> None:
        """Start without claims."""
        self._yielded: dict[int, set[int]] = {}
        """Source with a claim → sources that yielded to it; the oldest claim first."""

    def admits(self, source: int, acquire: Callable[[], bool]) -> bool:
        """Return whether a source gets a permit now.

        Args:
            source: Index of the source.
            acquire: Acquires a permit; returns whether one was free.
        """
        older = list(takewhile(lambda other: other != source, self._yielded))
        has_priority = all(source in self._yielded[other] for other in older)
        for other in older:
            self._yielded[other].add(source)
        if has_priority and acquire():
            self._yielded.pop(source, None)
            return True
        self._yielded[source] = set()
        return False


class StaleFilter:
    """`Grouping` that drops stale frames before another `Grouping`."""

    def __init__(self, inner: Grouping[LiveFrame], limit: AgeLimit) -> None:
        """Wrap `inner`, which groups the remaining frames."""
        self._inner = inner
        self._limit = limit

    def add(self, item: Item[LiveFrame]) -> Iterator[Group[LiveFrame]]:
        """See `Grouping.add`."""
        if self._limit.is_over(item.value.arrived_ns):
            yield Group((item,), item.parts, cause=STALE)
        else:
            yield from self._inner.add(item)

    def flush(self) -> Iterator[Group[LiveFrame]]:
        """See `Grouping.flush`."""
        return self._inner.flush()
