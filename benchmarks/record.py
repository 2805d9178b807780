"""Result of a benchmark: provenance, media and every repeat."""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Generic, Self, TypeVar

from pydantic import AliasChoices, Field

from benchmarks.equality import Equality
from benchmarks.worker import ROOT
from headrace.atomic_file import write_whole
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance, Record

RESULTS = ROOT / "benchmarks" / "results"
AnyRow = TypeVar("AnyRow", bound=Record)


class Repeat(Record):
    """One timed run; None: unknown."""

    wall_seconds: float = Field(validation_alias=AliasChoices("wall_seconds", "wall"))
    frames: int = 0
    """Delivered frames, including all frames of clips; 0 if the run requests no frames."""
    cpu_seconds: float | None = Field(
        default=None, validation_alias=AliasChoices("cpu_seconds", "cpu")
    )
    """CPU time of all threads and processes."""
    others_cpu_seconds: float | None = None
    """CPU time of other programs during the run; near 0 on a quiet machine."""
    scan_seconds: float | None = None
    """Time to open the loader with new files."""
    open_seconds: float | None = None
    """Time to open the loader with known files."""
    first_seconds: float | None = None
    """Time from the open loader to the first frames."""
    lookahead: int | None = None
    """Requests that the loader plans together."""
    warm_up_frames: int | None = None
    """Frames delivered before the clock started."""
    decoded: int | None = None
    """Frames decoded."""
    seeks: int | None = None
    opens: int | None = None
    """Times a file was opened."""
    open_files: int | None = None
    """Max file descriptors after a batch, minus those before the loader opened."""
    memory_bytes: int | None = None
    """Peak RSS minus RSS before the first file was opened; without worker processes."""
    peak_rss_bytes: int | None = None
    """Peak memory of the process, imports included."""
    written_bytes: int | None = None
    """Bytes of the output files."""

    @property
    def frames_per_second(self) -> float:
        """Delivered frames per second of wall time."""
        return self.frames / self.wall_seconds

    @property
    def others_share(self) -> float | None:
        """CPU time of other programs ÷ all CPU time; repeat a run above 0.05."""
        if self.cpu_seconds is None or self.others_cpu_seconds is None:
            return None
        return self.others_cpu_seconds / max(1e-9, self.others_cpu_seconds + self.cpu_seconds)

    @property
    def cpu_ms_per_frame(self) -> float | None:
        """CPU milliseconds per delivered frame, all threads and processes together."""
        if self.cpu_seconds is None or not self.frames:
            return None
        return 1e3 * self.cpu_seconds / self.frames

    @property
    def is_filled(self) -> bool:
        """Whether the lookahead was full before timing."""
        return (self.warm_up_frames or 0) >= (self.lookahead or 0)


class Tried(Record):
    """Measurement that may fail, with the reason."""

    failure: str | None = None
    """Reason of missing figures."""

    @property
    def words(self) -> str:
        """Name, as printed."""
        known = self.model_dump(exclude_defaults=True, exclude={"repeats", "turns", "failure"})
        return " ".join(f"{name}={value}" for name, value in known.items())

    @property
    def progress(self) -> str:
        """Latest measurement, as printed."""
        return "measured"

    @property
    def is_sound(self) -> bool:
        """Whether nothing has failed."""
        return self.failure is None

    @property
    def missing(self) -> str:
        """Reason its figures are missing in a table; empty: none."""
        return f"failed: {self.failure.replace('|', '/')}" if self.failure else ""

    def failed(self, reason: str | None) -> Self:
        """Return the row with a reason of failure; None: not failed."""
        return self.model_copy(update={"failure": reason})


AnyTried = TypeVar("AnyTried", bound=Tried)


class Timed(Tried):
    """Row timed by interleaved repeats."""

    repeats: tuple[Repeat, ...] = Field(
        default=(), validation_alias=AliasChoices("repeats", "turns")
    )

    @property
    def progress(self) -> str:
        """Latest repeat, as printed."""
        if not self.repeats:
            return super().progress
        last = self.repeats[-1]
        speed = f", {last.frames_per_second:.1f} frames/s" if last.frames else ""
        share = last.others_share
        others = "" if share is None else f", other programs used {share:.0%} of the CPU time"
        return f"{last.wall_seconds:.2f} s{speed}{others}"

    @property
    def count(self) -> int:
        """Number of repeats."""
        return len(self.repeats)

    @property
    def missing(self) -> str:
        """Reason its figures are missing in a table; empty: none."""
        return super().missing or ("" if self.repeats else "skipped")

    def values(self, name: str) -> list[float]:
        """Return a field of all repeats that know it."""
        figures = [getattr(repeat, name) for repeat in self.repeats]
        return [value for value in figures if value is not None]

    def timed(self, *repeats: Repeat) -> Self:
        """Return the row with more repeats."""
        return self.model_copy(update={"repeats": (*self.repeats, *repeats)})

    def without_first(self) -> Self:
        """Return the row without its first repeat, a warm-up."""
        return self.model_copy(update={"repeats": self.repeats[1:]})


AnyTimed = TypeVar("AnyTimed", bound=Timed)


def ratios(ours: Timed | None, theirs: Timed | None, name: str) -> list[float]:
    """Return ratios of a field, round by round; [] if the rounds do not match."""
    mine, others = (row.values(name) if row else [] for row in (ours, theirs))
    if len(mine) != len(others):
        return []
    return [a / max(1e-9, b) for a, b in zip(mine, others, strict=True)]


class Row(Timed):
    """Figures of one entrant on one kind of media."""

    name: str = Field(validation_alias=AliasChoices("name", "way"))
    """Entrant: a library, a variant, a command."""
    kind: str = ""
    """Kind of media."""
    versions: dict[str, str] = Field(default_factory=dict)
    equality: Equality | None = None
    """Comparison with the reference frames; None: not compared."""

    @property
    def words(self) -> str:
        """Kind of media and name."""
        return f"{self.kind} {self.name}".strip()

    @property
    def is_sound(self) -> bool:
        """Whether nothing has failed and all frames are right."""
        return super().is_sound and (self.equality is None or self.equality.holds)

    @property
    def missing(self) -> str:
        """Reason its figures are missing in a table; empty: none."""
        if self.equality and not self.equality.holds:
            bad = self.equality.missing + self.equality.wrong
            return f"wrong frames: {bad:,} of {self.equality.frames:,}"
        return super().missing

    @property
    def progress(self) -> str:
        """Latest repeat, or the equality of its frames, as printed."""
        if self.repeats or not self.equality:
            return super().progress
        figures = self.equality
        words = "equal" if figures.holds else f"{figures.missing} missing and {figures.wrong} wrong"
        return f"{figures.frames} frames, {words}"

    @property
    def speed(self) -> float:
        """Median frames per second; 0: not timed."""
        return median(self.values("frames_per_second") or [0.0])

    @property
    def amplification(self) -> float | None:
        """Decoded ÷ delivered frames over all repeats; None: unknown."""
        frames = sum(repeat.frames for repeat in self.repeats if repeat.decoded is not None)
        return sum(self.values("decoded")) / frames if frames else None


class Result(Record):
    """Saved result of a benchmark."""

    provenance: Provenance
    """Provenance, with the benchmark's parameters as configuration."""
    has_time_of_day: bool = True
    """False if only the day is known: `provenance.created` is its start."""
    media: dict[str, Any] = Field(default_factory=dict)
    """Recipe of the media, and decoding properties of each kind."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the result that `save` wrote."""
        return cls.model_validate_json(path.read_text("utf-8"))

    def save(self, path: Path) -> None:
        """Write as readable JSON for `load`; None fields are left out."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.model_dump_json(indent=1, exclude_none=True) + "\n")


class Rows(Result, Generic[AnyRow]):
    """Result with one row per variant, loop or file."""

    rows: tuple[AnyRow, ...] = ()

    def plus(self, row: AnyRow) -> Self:
        """Return the result with a further row."""
        return self.model_copy(update={"rows": (*self.rows, row)})


class TimedResult(Rows[Row]):
    """Timed entrants."""

    def row(self, name: str, kind: str = "") -> Row | None:
        """Return the row of one entrant on one kind of media, if any."""
        return next((row for row in self.rows if (row.name, row.kind) == (name, kind)), None)

    def updated(self, rows: Sequence[Row], order: Sequence[str]) -> Self:
        """Return the result with `rows` replacing their older versions, in the `order` of names."""
        table = {(row.name, row.kind): row for row in (*self.rows, *rows)}
        ordered = sorted(table.values(), key=lambda row: order.index(row.name))
        return self.model_copy(update={"rows": tuple(ordered)})

    def resumed(self, path: Path) -> Self:
        """Return the interrupted result at `path`, to continue; this one if there is no file.

        Raises:
            ValueError: the existing result was measured under other conditions.
        """
        if not path.is_file():
            return self
        figures = self.load(path)
        then, now = _conditions(figures), _conditions(self)
        differ = [name for name in now if then[name] != now[name]]
        if differ:
            raise ValueError(
                f"{path} was measured under other conditions ({', '.join(differ)}); "
                "start again without --resume, or name another --out"
            )
        return figures


def origin(**parameters: object) -> Provenance:
    """Return the provenance of this machine, checkout and command; `parameters` are the
    configuration."""
    return provenance(parameters, command())


def command() -> tuple[str, ...]:
    """Return the command line of this process, without absolute paths."""
    return tuple(_shown(Path(word)) if Path(word).is_absolute() else word for word in sys.argv)


def _shown(path: Path) -> str:
    """Return a path inside the checkout relative to its root, other paths by name only."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _conditions(result: Result) -> dict[str, Any]:
    """Return the fields that must be equal for repeats to be combined."""
    known = result.model_dump(mode="json", exclude_none=True)
    source = known["provenance"]
    source["machine"].pop("available_bytes", None)  # differs at every moment
    facts = {name: source.get(name) for name in ("commit", "configuration", "machine", "versions")}
    return {**facts, "media": known["media"]}
