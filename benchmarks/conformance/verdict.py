"""Results of conformance runs: verdicts, counts and tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, Self, get_args

from benchmarks.record import Result
from headrace.measuring.interleaved import grouped
from headrace.profiling.provenance import Provenance, Record

Ending = Literal["done", "traceback", "hang", "crash"]
"""How the process of a variant ended."""
Kind = Literal[
    "right", "wrong", "refused with complaint", "refused without", "traceback", "hang", "crash"
]
"""Verdict on a variant for one file: its worst outcome."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FAULTS = frozenset(KINDS) - {"right", "refused with complaint"}
"""Verdicts that headrace must not have."""
_WORSE = ("right", "refused with complaint", "refused without", "wrong", *KINDS[4:])
"""Verdicts from best to worst."""

HEADRACE = "headrace"
WAYS = ("seek", "plan", "clip", "order", "order-2")
"""Variants of headrace, see `benchmarks.conformance.ways`; the last runs on two threads."""
JOBS, PASS = "jobs", "one pass"
"""Variants for random files: jobs in random order on one decoder; all frames in one job."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of a run, the same for every file."""

    places: int = 6
    """Number of random frames, and of random clips."""
    planned: int = 250
    """Max frames read by plan."""
    seed: int = 0
    size: tuple[int, int] = (64, 64)
    """(height, width) of the small images of the plain decode."""
    most_frames: int = 2000
    """Max frames of the plain decode."""
    limit_seconds: float = 120
    """Time limit of a process."""
    ways: Sequence[str] = WAYS
    """Variants of headrace."""
    libraries: Sequence[str] = ()


class Verdict(Record):
    """Result of one variant of one party for one file; a frame requested twice counts twice."""

    party: str
    """`headrace`, or the library."""
    way: str
    """Variant: `seek`, `plan`, ..."""
    right: int = 0
    """Frames equal to those of the plain decode."""
    wrong: int = 0
    """Frames that differ, that the plain decode lacks, or that are missing without an error."""
    refused_with: int = 0
    """Refused frames with a complaint of FFmpeg."""
    refused_without: int = 0
    """Refused frames without a complaint of FFmpeg."""
    ending: Ending = "done"
    """How the process ended."""
    examples: tuple[str, ...] = ()
    """First faults, as text."""
    reason: str = ""
    """First error message of the party, or the last lines of its traceback."""

    @property
    def kind(self) -> Kind:
        """Worst outcome."""
        if self.ending != "done":
            return self.ending
        if self.wrong:
            return "wrong"
        if self.refused_without:
            return "refused without"
        return "refused with complaint" if self.refused_with else "right"

    @property
    def frames(self) -> int:
        """Number of frames with an outcome."""
        return self.right + self.wrong + self.refused_with + self.refused_without


FileState = Literal["read", "no video", "hang", "crash", "failed"]


class JudgedFile(Record):
    """Properties of a file, and the verdicts of all variants."""

    name: str
    """Name, or description of a draw."""
    container: str = ""
    codec: str = ""
    frames: int = 0
    """Frames of the plain decode."""
    complaints: int = 0
    """Packets with a complaint of FFmpeg."""
    verdicts: tuple[Verdict, ...] = ()

    def of(self, party: str) -> list[Verdict]:
        """Return the verdicts of one party."""
        return [verdict for verdict in self.verdicts if verdict.party == party]

    @property
    def is_fault(self) -> bool:
        """Whether headrace has a fault."""
        return any(verdict.kind in FAULTS for verdict in self.of(HEADRACE))


class FileRow(JudgedFile):
    """One file of a conformance run."""

    bytes: int
    state: FileState
    """`read`, or the reason there is no reference: `no video`, or a hang, crash or failure of the
    plain decode."""
    reason: str = ""
    """Reason it was not read."""
    size: tuple[int, int] = (0, 0)
    """(height, width), as stored."""
    is_whole: bool = True
    """False if only the first frames were decoded and compared."""
    has_one_size: bool = True
    """False if the frame size changes."""
    lines: tuple[str, ...] = ()
    """Messages of FFmpeg."""
    index_frames: int | None = None
    """Frames of headrace's index, up to the end of the plain decode; None: no index."""
    loose: int = 0
    """Indexed frames that may match several frames of the plain decode; see `align`."""


_SUMMED = ("frames", "wrong", "refused_with", "refused_without")


class Counts(Record):
    """Files by their worst verdict, and their frames."""

    files: dict[Kind, int]
    frames: int
    """Frames compared or refused."""
    wrong: int
    refused_with: int
    """Refused frames with a complaint of FFmpeg."""
    refused_without: int

    @classmethod
    def of(cls, files: Sequence[Sequence[Verdict]], **more: Any) -> Self:
        """Return the counts, from the verdicts of each file."""
        verdicts = [verdict for file in files for verdict in file]
        worst = [max((v.kind for v in file), key=_WORSE.index, default="right") for file in files]
        sums = {name: sum(getattr(v, name) for v in verdicts) for name in _SUMMED}
        return cls(files={kind: worst.count(kind) for kind in KINDS}, **sums, **more)


class Count(Counts):
    """One variant over all files."""

    party: str
    way: str


class ConformanceResult(Result):
    """All files, in order."""

    versions: dict[str, dict[str, str]]
    """Party → package → version."""
    summary: tuple[Count, ...]
    rows: tuple[FileRow, ...]

    @property
    def is_met(self) -> bool:
        """Whether headrace has no fault."""
        return not any(row.is_fault for row in self.rows)


def summarise(rows: Iterable[FileRow]) -> tuple[Count, ...]:
    """Return a count per variant, in order of first occurrence."""
    ways = grouped([v for row in rows for v in row.verdicts], lambda v: (v.party, v.way))
    return tuple(
        Count.of([[each] for each in verdicts], party=party, way=way)
        for (party, way), verdicts in ways.items()
    )


class DrawRow(JudgedFile):
    """One drawn file."""

    number: int
    """Number that, with the seed, gives the same file again; see `--only`."""
    not_made: str = ""
    """Reason that the file could not be encoded, or that FFmpeg rejects it."""


class DrawCount(Counts):
    """Files of one codec, or all of them."""

    what: str
    draws: int


class DrawsResult(Result):
    """Counts of drawn files, and the rows with faults."""

    seed: int
    total: DrawCount
    codecs: tuple[DrawCount, ...]
    containers: tuple[DrawCount, ...]
    not_made: int
    """Draws that could not be encoded, or that FFmpeg rejects."""
    faults: tuple[DrawRow, ...]

    @classmethod
    def of(cls, provenance: Provenance, seed: int, rows: Iterable[DrawRow]) -> Self:
        """Return the result of all rows."""
        rows = list(rows)
        drawn = [row for row in rows if not row.not_made]
        return cls(
            provenance=provenance,
            seed=seed,
            total=_counted("all", drawn),
            codecs=_by("codec", drawn),
            containers=_by("container", drawn),
            not_made=len(rows) - len(drawn),
            faults=tuple(row for row in drawn if row.is_fault),
        )


def _by(name: str, rows: Sequence[DrawRow]) -> tuple[DrawCount, ...]:
    groups = grouped(rows, attrgetter(name))
    return tuple(_counted(kind, groups[kind]) for kind in sorted(groups))


def _counted(what: str, rows: Sequence[DrawRow]) -> DrawCount:
    return DrawCount.of([row.verdicts for row in rows], what=what, draws=len(rows))


_TITLES = {
    "refused with complaint": "refused, complaint",
    "refused without": "refused, no complaint",
    "traceback": "tracebacks",
    "hang": "hangs",
    "crash": "crashes",
}


def render(result: ConformanceResult) -> str:
    """Return the tables of headrace and of each library, as text."""
    rows = result.rows
    read = [row for row in rows if row.state == "read"]
    parts = [
        f"{len(rows)} files: {len(read)} compared with a plain linear decode "
        f"({sum(row.frames for row in read):,} frames), "
        f"{sum(row.complaints > 0 for row in read)} of them with complaints of FFmpeg; "
        f"{sum(row.state == 'no video' for row in rows)} without video"
    ]
    for row in rows:
        if row.state == "no video":
            parts.append(f"  {row.name}: no video: {row.reason}")
        elif row.state != "read":
            parts.append(f"  {row.name}: the plain decode {_ENDS[row.state]}: {row.reason}")
    for party in dict.fromkeys(count.party for count in result.summary):
        versions = ", ".join(map(" ".join, result.versions.get(party, {}).items()))
        parts.append(f"\n{party}" + (f" ({versions})" if versions else ""))
        parts.append(_table([count for count in result.summary if count.party == party]))
        parts += _refused_or_wrong(rows, party)
    return "\n".join(parts)


def _table(counts: Sequence[Count]) -> str:
    titles = [_TITLES.get(kind, kind) for kind in KINDS]
    header = ["variant", *titles, "frames", "wrong frames", "refused frames"]
    lines = []
    for count in counts:
        frames = (f"{count.frames:,}", f"{count.wrong:,}")
        refused = f"{count.refused_with:,} + {count.refused_without:,}"
        lines.append([count.way, *(str(count.files[kind]) for kind in KINDS), *frames, refused])
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    return "\n".join(
        "  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
        for cells in (header, *lines)
    )


_ENDS = {"hang": "hangs", "crash": "crashes", "failed": "fails"}


def _refused_or_wrong(rows: Sequence[FileRow], party: str) -> Iterator[str]:
    """Yield a line per file with wrong or refused frames, faults of the party first."""
    faults, excused = list[str](), list[str]()
    for row in rows:
        bad = [verdict for verdict in row.of(party) if verdict.kind != "right"]
        if not bad:
            continue
        is_fault = any(verdict.kind in FAULTS for verdict in bad)
        words = "; ".join(map(_words, bad))
        reason = next((f" — {verdict.reason}" for verdict in bad if verdict.reason), "")
        log = f" [FFmpeg, at {row.complaints} packets: {row.lines[0]}]" if row.lines else ""
        facts = f"{row.container.split(',')[0]} {row.codec}, {row.frames} frames"
        if party == HEADRACE and row.index_frames not in (None, row.frames):
            facts += f", {row.index_frames} in the index"
        lines = faults if is_fault else excused
        lines.append(f"  {row.name} ({facts}): {words}{reason}{log}")
    for title, lines in ("faults:", faults), ("refused with a complaint of FFmpeg:", excused):
        if lines:
            yield from (title, *lines)


def _words(verdict: Verdict) -> str:
    refused = (verdict.refused_without, "refused without"), (verdict.refused_with, KINDS[2])
    parts = [f"{n} {what}" for n, what in ((verdict.wrong, "wrong"), *refused) if n]
    if parts:
        parts[-1] += f" of {verdict.frames}"
    if verdict.ending != "done":
        parts.insert(0, verdict.ending)
    examples = f" ({', '.join(verdict.examples[:2])})" if verdict.examples else ""
    return f"{verdict.way}: {', '.join(parts)}{examples}"
