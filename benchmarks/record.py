"""A benchmark's result as a value: where it comes from, its media, and every repeat."""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Self

from pydantic import Field

from benchmarks.equality import Equality
from benchmarks.worker import ROOT
from headrace.atomic_file import write_whole
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance, Record

RESULTS = ROOT / "benchmarks" / "results"


class Repeat(Record):
    """One timed run in a process of its own; a field is None where nothing tells it."""

    wall_seconds: float
    frames: int = 0
    """Delivered frames; a clip counts as its frames. 0 where none were asked for."""
    cpu_seconds: float | None = None
    """All threads and processes together."""
    others_cpu_seconds: float | None = None
    """CPU time of everything else on the machine meanwhile; near 0 on a quiet machine."""
    scan_seconds: float | None = None
    """Until the loader is open when every file is new."""
    open_seconds: float | None = None
    """The same when every file is known."""
    first_seconds: float | None = None
    """From then until the first frames came."""
    lookahead: int | None = None
    """Requests that the loader plans together."""
    warm_up_frames: int | None = None
    """Delivered before the clock started."""
    decoded: int | None = None
    """Frames decoded."""
    seeks: int | None = None
    opens: int | None = None
    """Files opened, also again."""
    open_files: int | None = None
    """Descriptors above those the process had before; the most that were seen after any batch."""
    memory_bytes: int | None = None
    """Peak memory of the process, above what it had before the first file was opened; without
    that of its worker processes."""
    peak_rss_bytes: int | None = None
    """Peak memory of the process with all that it had imported."""
    written_bytes: int | None = None
    """Of the files that came out."""

    @property
    def frames_per_second(self) -> float:
        """Delivered frames per second of wall time."""
        return self.frames / self.wall_seconds

    @property
    def others_share(self) -> float | None:
        """CPU time of everything else, as a share of all that was used. Above 0.05: repeat it."""
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
        """Whether it had looked ahead as far as it may before it was timed."""
        return (self.warm_up_frames or 0) >= (self.lookahead or 0)


class Tried(Record):
    """Something that may fail, and is kept then with the reason."""

    failure: str | None = None
    """Why there are no figures, or fewer."""

    @property
    def words(self) -> str:
        """What it is, as it is printed."""
        known = self.model_dump(exclude_defaults=True, exclude={"repeats", "turns", "failure"})
        return " ".join(f"{name}={value}" for name, value in known.items())

    @property
    def progress(self) -> str:
        """What was measured last, as it is printed."""
        return "measured"

    @property
    def is_sound(self) -> bool:
        """Nothing has failed."""
        return self.failure is None

    @property
    def count(self) -> int:
        """Repeats that it has."""
        return 0

    @property
    def missing(self) -> str:
        """Why a table has no figures of it; empty where it has."""
        return f"failed: {self.failure.replace('|', '/')}" if self.failure else ""

    def failed(self, reason: str | None) -> Self:
        """Return it with the reason why there are no more repeats; None: there will be."""
        return self.model_copy(update={"failure": reason})


class Timed(Tried):
    """One of the things that are timed in turns."""

    repeats: tuple[Repeat, ...] = ()

    @property
    def progress(self) -> str:
        """The last repeat."""
        if not self.repeats:
            return super().progress
        last = self.repeats[-1]
        speed = f", {last.frames_per_second:.1f} frames/s" if last.frames else ""
        share = last.others_share
        others = "" if share is None else f", others used {share:.0%} of the machine"
        return f"{last.wall_seconds:.2f} s{speed}{others}"

    @property
    def count(self) -> int:
        """Repeats that it has."""
        return len(self.repeats)

    @property
    def missing(self) -> str:
        """Why a table has no figures of it; empty where it has."""
        return super().missing or ("" if self.repeats else "skipped")

    def values(self, name: str) -> list[float]:
        """Return a field of all repeats that tell it."""
        figures = [getattr(repeat, name) for repeat in self.repeats]
        return [value for value in figures if value is not None]

    def timed(self, *repeats: Repeat) -> Self:
        """Return it with more repeats."""
        return self.model_copy(update={"repeats": (*self.repeats, *repeats)})

    def without_first(self) -> Self:
        """Return it without its first repeat, which warms up."""
        return self.model_copy(update={"repeats": self.repeats[1:]})


def ratios(ours: Timed | None, theirs: Timed | None, name: str) -> list[float]:
    """Return a field of our repeats by theirs, round by round; [] if the rounds do not match."""
    mine, others = (row.values(name) if row else [] for row in (ours, theirs))
    if len(mine) != len(others):
        return []
    return [a / b for a, b in zip(mine, others, strict=True)]


class Row(Timed):
    """What one entrant did on one kind of media."""

    name: str
    """Of the entrant: a library, a way, a command."""
    kind: str = ""
    """Of the media."""
    versions: dict[str, str] = Field(default_factory=dict)
    equality: Equality | None = None
    """None where it did not get so far, or no frames are compared."""

    @property
    def words(self) -> str:
        """Kind of media and name."""
        return f"{self.kind} {self.name}".strip()

    @property
    def is_sound(self) -> bool:
        """Nothing has failed and no frame is wrong."""
        return super().is_sound and (self.equality is None or self.equality.holds)

    @property
    def missing(self) -> str:
        """Why a table has no figures of it; empty where it has."""
        if self.equality and not self.equality.holds:
            bad = self.equality.missing + self.equality.wrong
            return f"wrong frames: {bad:,} of {self.equality.frames:,}"
        return super().missing

    @property
    def progress(self) -> str:
        """The last repeat, or how equal its frames are."""
        if self.repeats or not self.equality:
            return super().progress
        figures = self.equality
        right = "equal" if figures.holds else f"{figures.missing} missing and {figures.wrong} wrong"
        return f"{figures.frames} frames, {right}"

    @property
    def speed(self) -> float:
        """Median frames per second; 0 where it was not timed."""
        return median(self.values("frames_per_second") or [0.0])

    @property
    def amplification(self) -> float | None:
        """Frames decoded per frame delivered, over all repeats; None where it does not tell."""
        frames = sum(repeat.frames for repeat in self.repeats if repeat.decoded is not None)
        return sum(self.values("decoded")) / frames if frames else None


class Result(Record):
    """What a benchmark keeps."""

    provenance: Provenance
    """Its configuration are the benchmark's parameters."""
    has_time_of_day: bool = True
    """False where the day alone is known: `provenance.created` is its beginning then."""
    media: dict[str, Any] = Field(default_factory=dict)
    """The recipe of the media, and what the set of each kind is like to a decoder."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        return cls.model_validate_json(path.read_text("utf-8"))

    def save(self, path: Path) -> None:
        """Write as JSON, for people and for `load`; what is None is left out."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.model_dump_json(indent=1, exclude_none=True) + "\n")


class TimedResult(Result):
    """Entrants that were timed."""

    rows: tuple[Row, ...] = ()

    def row(self, name: str, kind: str) -> Row | None:
        """Return the row of one entrant on one kind of media, if there is one."""
        return next((row for row in self.rows if (row.name, row.kind) == (name, kind)), None)

    def updated(self, rows: Sequence[Row], order: Sequence[str]) -> Self:
        """Return this with `rows` in place of their older selves, in the `order` of names."""
        table = {(row.name, row.kind): row for row in (*self.rows, *rows)}
        ordered = sorted(table.values(), key=lambda row: order.index(row.name))
        return self.model_copy(update={"rows": tuple(ordered)})

    def resumed(self, path: Path) -> Self:
        """Return what an interrupted run left at `path`, to go on with; this if there is no file.

        Raises:
            ValueError: that was measured under other conditions.
        """
        if not path.is_file():
            return self
        figures = self.load(path)
        then, now = _conditions(figures), _conditions(self)
        differ = [name for name in now if then[name] != now[name]]
        if differ:
            raise ValueError(
                f"{path} was measured under other conditions ({', '.join(differ)}); "
                "begin anew, without --resume, or name another --out"
            )
        return figures


def origin(**parameters: object) -> Provenance:
    """This machine, this checkout and this command, now; `parameters` are the configuration."""
    return provenance(parameters, command())


def command() -> tuple[str, ...]:
    """The command line of this process; paths inside the checkout as seen from its root."""
    return tuple(_shown(Path(word)) if Path(word).is_absolute() else word for word in sys.argv)


def _shown(path: Path) -> str:
    """A path elsewhere is that of one machine, and says nothing to others: its name is kept."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _conditions(result: Result) -> dict[str, Any]:
    """What must be the same for repeats to stand together."""
    known = result.model_dump(mode="json", exclude_none=True)
    made = known["provenance"]
    made["machine"].pop("available_bytes", None)  # another at every moment
    facts = {name: made.get(name) for name in ("commit", "configuration", "machine", "versions")}
    return {**facts, "media": known["media"]}
