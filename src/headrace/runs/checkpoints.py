"""The record of a run, handed out as it goes, so that a process that is killed leaves it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headrace.errors import ConfigError
from headrace.profiling.session import Session
from headrace.runtime.clock import Clock

OnRecord = Callable[[Session], None]
"""Called with the record of a run so far; may raise ConfigError where it cannot be kept."""

_FIRST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 10.0
_COST_SHARE: Final = 0.01
"""Of the time of a run that its checkpoints may take: at 100,000 steps each takes about 0.3 s."""


class Checkpoints:
    """When the record of a run is due: as its age doubles, then every 10 s. Not thread-safe."""

    def __init__(self, on_record: OnRecord | None, clock: Clock) -> None:
        """Begin with the run; the first checkpoint is due after 1 s, none without `on_record`."""
        self._on_record = on_record
        self._clock = clock
        self._began_ns = clock.now_ns()
        self._due_ns = self._began_ns + round(_FIRST_SECONDS * 1e9)

    def look(self, record: Callable[[], Session]) -> None:
        """Hand out what `record` returns, as an interrupted run, if a checkpoint is due.

        What cannot be written now is reported when the run ends, and writes its whole record.
        """
        now_ns = self._clock.now_ns()
        if self._on_record is None or now_ns < self._due_ns:
            return
        session = record()
        words = f"killed, or still running: recorded {session.wall_seconds:.1f} s after it began"
        with suppress(ConfigError):
            self._on_record(session.model_copy(update={"outcome": "interrupted", "error": words}))
        cost_ns = self._clock.now_ns() - now_ns
        age_ns = now_ns - self._began_ns
        wait_ns = max(min(age_ns, _MOST_SECONDS * 1e9), cost_ns / _COST_SHARE)
        self._due_ns = now_ns + round(wait_ns)
