"""A run is asked how it is a few times a second, however many want to know."""

from collections.abc import Callable
from typing import Final

from headrace.runtime.clock import Clock
from headrace.sinks.web.status import LiveStatus

FRESH_NS: Final = 250_000_000
"""As long a status serves everybody: shorter than a reader notices."""


class StatusCache:
    """The status of a run, at most a quarter of a second old. For one thread."""

    def __init__(self, ask: Callable[[], LiveStatus], clock: Clock) -> None:
        """Ask nothing yet."""
        self._ask = ask
        self._clock = clock
        self._asked_ns = 0
        self._status: LiveStatus | None = None
        self._text = b""

    def status(self) -> LiveStatus:
        """Return how the run is."""
        now_ns = self._clock.now_ns()
        if self._status is None or now_ns - self._asked_ns >= FRESH_NS:
            self._status, self._asked_ns, self._text = self._ask(), now_ns, b""
        return self._status

    def text(self) -> bytes:
        """Return the same as JSON, written once for everybody."""
        status = self.status()
        if not self._text:
            self._text = status.model_dump_json().encode()
        return self._text
