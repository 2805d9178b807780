"""How long to wait before the next attempt to connect, and when to stop trying."""

from dataclasses import dataclass

from headrace.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """Waits that grow: the first, then each `factor` times the one before, up to the longest.

    Nothing is random: the same outage takes the same attempts.
    """

    first_seconds: float = 0.25
    """Before the first attempt to connect again: many a camera is back at once."""
    factor: float = 2.0
    longest_seconds: float = 2.0
    """A refused connection costs next to nothing, so a picture is late by no more than this."""
    attempts: int | None = None
    """In a row, after which it is given up; None tries for ever. A frame starts them anew."""

    def __post_init__(self) -> None:
        if self.first_seconds < 0 or self.longest_seconds < self.first_seconds or self.factor < 1:
            raise ConfigError(
                "waits between attempts must be >= 0 and grow: got first_seconds="
                f"{self.first_seconds}, factor={self.factor}, longest_seconds="
                f"{self.longest_seconds}"
            )
        if self.attempts is not None and self.attempts < 0:
            raise ConfigError(f"attempts must be >= 0, or None for no limit, got {self.attempts}")

    def before(self, attempt: int) -> float | None:
        """Return the seconds to wait before an attempt, counted from 0; None: it is given up."""
        if self.attempts is not None and attempt >= self.attempts:
            return None
        # Powers of a large attempt overflow a float, long after the longest wait is reached.
        seconds = self.first_seconds
        for _ in range(min(attempt, 64)):
            seconds = min(seconds * self.factor, self.longest_seconds)
        return min(seconds, self.longest_seconds)
