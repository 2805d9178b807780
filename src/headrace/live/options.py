"""How live sources are connected to, watched and connected to again."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from headrace.errors import ConfigError
from headrace.live.back_off import BackOff
from headrace.sizes import check_integers

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
