"""Options of live sources: connection, stall detection, reconnection."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """Exponential back-off: each wait is twice the one before, up to the longest.

    Without jitter: equal outages take equal attempts.
    """

    first_seconds: float = 0.25
    """Wait before the first reconnection; many cameras return at once."""
    longest_seconds: float = 2.0
    """Longest wait, which bounds the delay of the first frame."""
    attempts: int | None = None
    """Consecutive attempts before giving up; None: no limit. A frame resets the count."""

    def before(self, attempt: int) -> float | None:
        """Return the seconds before an attempt, counted from 0; None after the last attempt."""
        if self.attempts is not None and attempt >= self.attempts:
            return None
        # A power with a large attempt would overflow a float.
        return min(self.first_seconds * 2.0 ** min(attempt, 64), self.longest_seconds)


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of all live sources of a run."""

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
