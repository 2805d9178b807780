"""A benchmark's result as a value: machine, versions, commit, parameters and every repeat."""

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from benchmarks.equality import Equality
from headrace.profiling.machine import describe_machine

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


class Value(BaseModel):
    """Part of a result: frozen, and no field is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Conditions(Value):
    """Where and on what a benchmark ran."""

    date: str
    cpu: str
    cores: int
    """Cores the benchmark could use."""
    memory_bytes: int
    system: str
    python: str
    commit: str
    """Of headrace; ends in "+" when the checkout had changes."""
    parameters: dict[str, Any]
    media: dict[str, Any] = {}
    """The recipe of the media, and what the set of each kind is like to a decoder."""


class Repeat(Value):
    """One timed run of one library in its own process, after a warm-up."""

    wall_seconds: float
    first_seconds: float
    """Until the first frames came."""
    cpu_seconds: float
    others_cpu_seconds: float
    """CPU time of everything else on the machine meanwhile; near 0 on a quiet machine."""
    frames: int
    """Delivered frames."""
    decoded_frames: int | None = None
    """None when the library does not tell."""
    peak_rss_bytes: int

    @property
    def frames_per_second(self) -> float:
        """Delivered frames per second of wall time."""
        return self.frames / self.wall_seconds

    @property
    def others_share(self) -> float:
        """CPU time of everything else, as a share of all that was used. Above 0.05: repeat it."""
        return self.others_cpu_seconds / (self.others_cpu_seconds + self.cpu_seconds)

    @property
    def cpu_ms_per_frame(self) -> float:
        """CPU milliseconds per delivered frame, all threads together."""
        return 1e3 * self.cpu_seconds / self.frames


class Row(Value):
    """One library on one kind of media."""

    library: str
    kind: str
    versions: dict[str, str] = {}
    equality: Equality | None = None
    """None when the library did not get so far."""
    failure: str | None = None
    """Why there are no repeats, or fewer."""
    repeats: tuple[Repeat, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Its frames are right and nothing has failed."""
        return self.failure is None and self.equality is not None and self.equality.holds


class RandomRepeat(Value):
    """One timed run of one way to random frames, after its warm-up."""

    frames: int
    """Delivered frames; a clip counts as its frames."""
    wall_seconds: float
    cpu_seconds: float
    """All threads and processes together."""
    others_cpu_seconds: float
    """CPU time of everything else on the machine meanwhile; near 0 on a quiet machine."""
    warm_up_frames: int
    """Delivered before the clock started."""
    decoded: int | None = None
    """Frames decoded; None when the way does not tell, as below."""
    seeks: int | None = None
    opens: int | None = None
    memory_bytes: int
    """Peak memory of the process, above what it had before the first file was opened; without
    that of its worker processes."""
    peak_rss_bytes: int | None = None
    """Peak memory of the process with all that it had imported."""

    @property
    def frames_per_second(self) -> float:
        """Delivered frames per second of wall time."""
        return self.frames / self.wall_seconds

    @property
    def others_share(self) -> float:
        """CPU time of everything else, as a share of all that was used. Above 0.05: repeat it."""
        return self.others_cpu_seconds / (self.others_cpu_seconds + self.cpu_seconds)

    @property
    def cpu_ms_per_frame(self) -> float:
        """CPU milliseconds per delivered frame."""
        return 1e3 * self.cpu_seconds / self.frames


class RandomRow(Value):
    """One way to random frames on one kind of media."""

    library: str
    kind: str
    versions: dict[str, str] = {}
    equality: Equality | None = None
    """None when it did not get so far."""
    failure: str | None = None
    """Why there are no repeats, or fewer."""
    repeats: tuple[RandomRepeat, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Its frames are right and nothing has failed."""
        return self.failure is None and self.equality is not None and self.equality.holds


class ScalingRow(Value):
    """A loader of so many files, opened and then timed once, in its own process."""

    files: int
    failure: str | None = None
    """Why there are no figures."""
    scan_seconds: float | None = None
    """Until the loader is open when every file is new; None where that was not timed."""
    open_seconds: float = 0.0
    """The same when every file is known."""
    first_batch_seconds: float = 0.0
    """From then until the first batch."""
    lookahead: int = 0
    """Requests that the loader plans together."""
    warm_up_frames: int = 0
    """Delivered before the clock started."""
    frames: int = 0
    """Delivered while it was timed."""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    others_cpu_seconds: float = 0.0
    """CPU time of everything else on the machine meanwhile; near 0 on a quiet machine."""
    decoded: int = 0
    opens: int = 0
    """Files opened, also again."""
    open_files: int = 0
    """Descriptors above those the process had before; the most that were seen after any batch."""
    memory_bytes: int = 0
    """Peak memory of the process, above what it had before."""

    @property
    def frames_per_second(self) -> float:
        """Delivered frames per second of wall time."""
        return self.frames / self.wall_seconds

    @property
    def is_filled(self) -> bool:
        """Whether it had looked ahead as far as it may before it was timed."""
        return self.warm_up_frames >= self.lookahead

    @property
    def others_share(self) -> float:
        """CPU time of everything else, as a share of all that was used. Above 0.05: repeat it."""
        return self.others_cpu_seconds / max(1e-9, self.others_cpu_seconds + self.cpu_seconds)


class Timing(Value):
    """Something that takes time, and each time it took."""

    name: str
    seconds: tuple[float, ...] = ()
    failure: str | None = None
    """Why there are no times."""


class Correlation(Value):
    """How alike the features of frames of one burst are."""

    frames_per_burst: int
    distance: int
    """Frames from one frame of a burst to the next; 1 means consecutive."""
    within: Literal["video", "gop"]
    """What each burst lies in."""
    bursts: int
    """Bursts it was measured on; no two share a frame."""
    rho: float
    low: float
    """Of the 95 % interval."""
    high: float


class Result(Value):
    """What a benchmark keeps."""

    conditions: Conditions

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        return cls.model_validate_json(path.read_text("utf-8"))

    def save(self, path: Path) -> None:
        """Write as JSON, for people and for `load`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=1) + "\n", "utf-8")


class SequentialResult(Result):
    """Every frame of every video, by each library."""

    rows: tuple[Row, ...]


class RandomResult(Result):
    """Random frames, or clips, by each way."""

    rows: tuple[RandomRow, ...]

    def row(self, library: str, kind: str) -> RandomRow | None:
        """Return the row of one way on one kind of media, if there is one."""
        found = [row for row in self.rows if (row.library, row.kind) == (library, kind)]
        return found[0] if found else None

    def updated(self, rows: Sequence[RandomRow], order: Sequence[str]) -> Self:
        """Return this with `rows` in place of their older selves, ways in the `order` of names."""
        table = {(row.library, row.kind): row for row in (*self.rows, *rows)}
        ordered = sorted(table.values(), key=lambda row: order.index(row.library))
        return self.model_copy(update={"rows": tuple(ordered)})

    @classmethod
    def begun(cls, path: Path, conditions: Conditions) -> Self:
        """What an interrupted run left at `path`, to go on with; no rows where there is no file.

        Raises:
            ValueError: it was measured under other conditions, the date aside.
        """
        if not path.is_file():
            return cls(conditions=conditions, rows=())
        found = cls.load(path)
        then, now = found.conditions.model_dump(), conditions.model_dump(mode="json")
        differ = [name for name in now if name != "date" and then[name] != now[name]]
        if differ:
            raise ValueError(
                f"{path} was measured under other conditions ({', '.join(differ)}); "
                "begin anew, without --resume, or name another --out"
            )
        return found


class StartupResult(Result):
    """The import, the command, and the opening of files."""

    timings: tuple[Timing, ...]


class ScalingResult(Result):
    """Sets of more and more files."""

    rows: tuple[ScalingRow, ...]


class CorrelationResult(Result):
    """Pairs of frames some distance apart, and runs of consecutive frames."""

    correlations: tuple[Correlation, ...]


class Spread(Value):
    """The median of repeats, and how far they lie apart."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Of at least one value."""
        return cls(median=median(values), lowest=min(values), highest=max(values))


def conditions(parameters: dict[str, Any], media: dict[str, Any]) -> Conditions:
    """This machine and this checkout, now."""
    machine = describe_machine()
    return Conditions(
        date=datetime.now(UTC).date().isoformat(),
        cpu=machine.cpu,
        cores=machine.usable_cores,
        memory_bytes=machine.memory_bytes,
        system=machine.system.partition(",")[0],
        python=machine.python,
        commit=commit(),
        parameters=parameters,
        media=media,
    )


def commit() -> str:
    """Return the commit of this checkout; with a + behind it, if src/ differs from it."""
    name = _git("rev-parse", "--short=12", "HEAD")
    return name + "+" if _git("status", "--porcelain", "src") else name


def _git(*words: str) -> str:
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()
