"""Options of live sources: connection, stall detection, reconnection."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from headrace.errors import ConfigError
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """Exponential back-off: each wait is `factor` times the one before, up to the longest.

    Without jitter: equal outages take equal attempts.
    """

    first_seconds: float = 0.25
    """Wait before the first reconnection; many cameras return at once."""
    factor: float = 2.0
    longest_seconds: float = 2.0
    """Longest wait, which bounds the delay of the first frame."""
    attempts: int | None = None
    """Consecutive attempts before giving up; None: no limit. A frame resets the count."""

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
        """Return the seconds before an attempt, counted from 0; None after the last attempt."""
        if self.attempts is not None and attempt >= self.attempts:
            return None
        # A power with a large attempt would overflow a float.
        seconds = self.first_seconds
        for _ in range(min(attempt, 64)):
            seconds = min(seconds * self.factor, self.longest_seconds)
        return min(seconds, self.longest_seconds)


Transport = Literal["tcp", "udp"]
"""Transport of RTSP: TCP loses no packets; UDP may be faster on a reliable network."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of all live sources of a run."""

    transport: Transport = "tcp"
    open_timeout_seconds: float = 5.0
    """Limit for a connection attempt, and for a connection without a frame; also bounds the life of
    a thread that reads a dead connection."""
    stall_seconds: float = 1.5
    """Time without a frame that counts as a stall: twice the interval of slow cameras."""
    reconnect: BackOff = field(default_factory=BackOff)
    wait_for_source: bool = False
    """Whether to wait for a source that is missing at the start, by the same back-off. A wrong
    password is always fatal: some cameras lock out repeated attempts."""
    backlog_seconds: float = 0.2
    """Maximum age of a frame right after connecting, relative to the newest; servers buffer seconds
    for new clients, which would delay every later frame."""
    keep: int = 8
    """Decoded frames per source that wait for the pipeline, at most; then the oldest is dropped, so
    that no frame waits in a server's buffer. A quarter of a second at 30 frames per second."""

    def __post_init__(self) -> None:
        if self.transport not in get_args(Transport):
            raise ConfigError(f"transport must be tcp or udp, got {self.transport!r}")
        if not 0 < self.stall_seconds <= self.open_timeout_seconds <= 3600:
            raise ConfigError(
                "stall_seconds must be > 0 and no more than open_timeout_seconds (at most an "
                f"hour), got {self.stall_seconds} and {self.open_timeout_seconds}"
            )
        if self.backlog_seconds < 0:
            raise ConfigError(f"backlog_seconds must be >= 0, got {self.backlog_seconds}")
        check_integers(1, keep=self.keep)
