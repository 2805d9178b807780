"""When to leave a store alone that fails."""

from typing import Final

from headrace.runtime.clock import Clock

FAILURES: Final = 3
"""In a row, before a store is left alone: one may be a server that was started anew."""
REST_SECONDS: Final = 60.0
"""For how long. A server that does not answer costs 2 seconds a try, for reading and for writing: a
fifteenth of the time at most."""


class Rest:
    """Leaves something alone for a while after several failures, then tries it once more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until_ns = 0

    @property
    def is_over(self) -> bool:
        """Whether it may be tried."""
        return self._failures < FAILURES or self._clock.now_ns() >= self._until_ns

    def failed(self) -> None:
        """Note a failure."""
        self._failures += 1
        self._until_ns = self._clock.now_ns() + round(REST_SECONDS * 1e9)

    def worked(self) -> None:
        """Note that it works."""
        self._failures = 0
