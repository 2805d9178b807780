"""What `bench_cores` keeps."""

from benchmarks.record import Repeat, Result
from headrace.profiling.provenance import Record


class Loading(Record):
    """A `FrameLoader` at work, or several in processes of their own at the same time."""

    way: str
    """decoded; undecoded (all but decoding)."""
    threads: int
    processes: int = 1
    latency_ms: float = 0.0
    """Of each request of 128 KiB; 0 with no bandwidth: the files themselves."""
    megabytes_per_second: float | None = None
    is_naive: bool = False
    """Whether it decodes for one request at a time."""
    repeats: tuple[Repeat, ...] = ()
    """One for each process."""
    requests: int | None = None
    """To the network."""
    failure: str | None = None

    @property
    def speed(self) -> float:
        """Frames per second, all processes together."""
        return sum(each.frames_per_second for each in self.repeats)

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds a frame."""
        return sum(each.cpu_ms_per_frame or 0.0 for each in self.repeats) / len(self.repeats)


class Planning(Record):
    """The planner alone."""

    files: int
    lookahead: int
    requests: int
    seconds: float

    @property
    def microseconds(self) -> float:
        """For each request."""
        return 1e6 * self.seconds / self.requests


class Scanning(Record):
    """New files scanned one after the other, by threads, or by processes."""

    way: str
    files: int
    seconds: float


class CoresResult(Result):
    """All of it."""

    compared: int
    """Frames held against a plain decode before anything was timed."""
    loading: tuple[Loading, ...]
    planning: tuple[Planning, ...]
    scanning: tuple[Scanning, ...]
