"""How live sources are connected to, watched and connected to again."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from headrace.errors import ConfigError
from headrace.units import check_integers


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


Transport = Literal["tcp", "udp"]
"""How RTSP brings its packets: TCP loses none; UDP may be quicker on a network that loses none."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What is the same for all live sources of a run."""

    transport: Transport = "tcp"
    open_timeout_seconds: float = 5.0
    """For an answer when connecting; a connection that brings no frame for so long is given up. A
    thread that reads from a dead one ends within it, too."""
    stall_seconds: float = 1.5
    """Without a frame, after which a source is said to stall: twice the interval of the slowest
    common cameras."""
    reconnect: BackOff = field(default_factory=BackOff)
    wait_for_source: bool = False
    """Whether a source that is not there at the start is waited for, by the same back-off. A wrong
    password is fatal all the same: some cameras lock out who tries on."""
    backlog_seconds: float = 0.2
    """How much older than the newest a frame may be right after connecting; servers that keep the
    last seconds for new clients would make every later frame late."""
    keep: int = 8
    """Decoded frames that wait for the pipeline at most, for each source; then the oldest is
    dropped, so that nothing waits in the buffers of a server. At 30 frames a second a quarter of a
    second."""

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
