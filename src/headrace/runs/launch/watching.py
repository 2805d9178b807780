"""Watches the workers of a launch: opens the start when all are ready, and hears how they go."""

from collections.abc import Callable, Sequence

from headrace.runs.launch.news import News
from headrace.runtime.child import Ending, Json
from headrace.runtime.clock import Clock
from headrace.runtime.rendezvous import Rendezvous


class CalledOff(Exception):  # noqa: N818 - no error: it ends the wait of those that are ready
    """A worker cannot begin, so none does."""


class Watch:
    """What the workers have told so far. Not thread-safe."""

    def __init__(
        self,
        names: Sequence[str],
        place: Rendezvous,
        clock: Clock,
        on_news: Callable[[News], None],
        on_begin: Callable[[], None],
        on_end: Callable[[Ending], None],
    ) -> None:
        """Nobody has told anything yet."""
        self.endings: dict[str, Ending] = {}
        self.pids: dict[str, int] = {}
        """Of those that are ready or were."""
        self.ready_seconds: dict[str, float] = {}
        self.began_ns: dict[str, int] = {}
        self.is_interrupted = False
        self._names = names
        self._place = place
        self._clock = clock
        self._started_ns = clock.now_ns()
        self._is_open = False
        self._broken: set[str] = set()
        self._on_news = on_news
        self._on_begin = on_begin
        self._on_end = on_end

    @property
    def broken(self) -> tuple[str, ...]:
        """Return those that ended badly before the start, in the order of the names."""
        return tuple(name for name in self._names if name in self._broken)

    def look(self) -> None:
        """Hear what is new, and open the start when all are there.

        Raises:
            CalledOff: all are there or have ended, and one of them cannot begin.
        """
        for name, message in self._place.hear():
            self._heard(name, message)
        if self._is_open or self.is_interrupted:
            return
        if all(name in self.pids or name in self.endings for name in self._names):
            self._is_open = True
            if not self._broken:
                self._on_begin()
                self._place.open()
            elif len(self.endings) < len(self._names):
                raise CalledOff

    def ended(self, ending: Ending) -> None:
        """Take in how one ended."""
        for name, message in self._place.hear():
            self._heard(name, message)
        self.endings[ending.name] = ending
        is_before = not self._is_open and not self.is_interrupted
        if is_before and not ending.is_good:
            self._broken.add(ending.name)
        self._on_end(ending)

    def interrupted(self) -> None:
        """All are asked to end."""
        self.is_interrupted = True

    def began_ms(self, name: str) -> float | None:
        """Return when one began, after the first one did; None where it did not."""
        if name not in self.began_ns:
            return None
        return (self.began_ns[name] - min(self.began_ns.values())) / 1e6

    def _heard(self, name: str, message: Json) -> None:
        match message:
            case {"ready": int(pid)}:
                self.pids[name] = pid
                self.ready_seconds[name] = (self._clock.now_ns() - self._started_ns) / 1e9
                self._on_news(News(worker=name, state="ready"))
            case {"began": int(at_ns)}:
                self.began_ns[name] = at_ns
                self._on_news(News(worker=name, state="running"))
            case {"frames": int(frames), "seconds": float(seconds)}:
                news = News(worker=name, state="running", frames=frames, seconds=seconds)
                self._on_news(news)
