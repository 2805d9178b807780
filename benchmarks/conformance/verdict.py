"""Results of a conformance run, or of random files: verdicts, counts, and tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, Self, get_args

from benchmarks.record import Result
from headrace.measuring.interleaved import grouped
from headrace.profiling.provenance import Provenance, Record

Ending = Literal["done", "traceback", "hang", "crash"]
"""Exit of the process of a variant."""
Kind = Literal[
    "right", "wrong", "refused with complaint", "refused without", "traceback", "hang", "crash"
]
"""Verdict of a variant on a file: the worst that happened."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FAULTS = frozenset(KINDS) - {"right", "refused with complaint"}
"""Verdicts that headrace must never have."""
_WORSE = ("right", "refused with complaint", "refused without", "wrong", *KINDS[4:])
"""Verdicts from good to bad."""

HEADRACE = "headrace"
WAYS = ("seek", "plan", "clip", "order", "order-2")
"""Of headrace: see `benchmarks.conformance.ways`; the last on two threads."""
JOBS, PASS = "jobs", "one pass"
"""The two variants of files drawn at random: jobs in random order on one decoder, all frames in one
job."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Questions for every file."""

    places: int = 6
    """Random frames, and random clips."""
    planned: int = 250
    """Frames read by plan."""
    seed: int = 0
    size: tuple[int, int] = (64, 64)
    """(height, width) of the small pictures of the plain decode."""
    most_frames: int = 2000
    limit_seconds: float = 120
    """Time limit of a process."""
    ways: Sequence[str] = WAYS
    """Of headrace."""
    libraries: Sequence[str] = ()


class Verdict(Record):
    """Result of one party on one file by one variant; repeated frames count twice."""

    party: str
    """`headrace`, or the library."""
    way: str
    """Variant: `seek`, `plan`, ..."""
    right: int = 0
    """Frames equal to those of the plain decode."""
    wrong: int = 0
    """Frames that differ, are unknown to the plain decode, or are silently missing."""
    refused_with: int = 0
    """Refused frames with a complaint of FFmpeg's."""
    refused_without: int = 0
    """Refused frames without a complaint of FFmpeg's."""
    ending: Ending = "done"
    """Exit of the process."""
    examples: tuple[str, ...] = ()
    """First few wrong frames, as text."""
    reason: str = ""
    """First message of the party; or the last lines of its traceback."""

    @property
    def kind(self) -> Kind:
        """The worst that happened."""
        if self.ending != "done":
            return self.ending
        if self.wrong:
            return "wrong"
        if self.refused_without:
            return "refused without"
        return "refused with complaint" if self.refused_with else "right"

    @property
    def frames(self) -> int:
        """Requested and answered frames."""
        return self.right + self.wrong + self.refused_with + self.refused_without


FileState = Literal["read", "no video", "hang", "crash", "failed"]


class JudgedFile(Record):
    """Properties of a file, and a verdict per variant."""

    name: str
    """Name, or description of a draw."""
    container: str = ""
    codec: str = ""
    frames: int = 0
    """Frames of the plain decode."""
    complaints: int = 0
    """Packets with a complaint of FFmpeg's."""
    verdicts: tuple[Verdict, ...] = ()

    def of(self, party: str) -> list[Verdict]:
        """Return the verdicts of one party."""
        return [verdict for verdict in self.verdicts if verdict.party == party]

    @property
    def is_fault(self) -> bool:
        """Whether headrace has a fault."""
        return any(verdict.kind in FAULTS for verdict in self.of(HEADRACE))


class FileRow(JudgedFile):
    """One file: further properties, and messages of FFmpeg."""

    bytes: int
    state: FileState
    """`read`; else there is no reference: `no video` for FFmpeg, or a hang, crash or failure of the
    plain decode."""
    reason: str = ""
    """Reason it was not read."""
    size: tuple[int, int] = (0, 0)
    """(height, width), as stored."""
    is_whole: bool = True
    """False if the plain decode was cut short: only the first frames are compared."""
    has_one_size: bool = True
    """False if the frame size changes."""
    lines: tuple[str, ...] = ()
    """Messages of FFmpeg."""
    index_frames: int | None = None
    """Frames of headrace's index, up to the end of the plain decode; None: no index."""
    loose: int = 0
    """Indexed frames that may match several frames of the plain decode: see `align`."""


_SUMMED = ("frames", "wrong", "refused_with", "refused_without")


class Counts(Record):
    """Files by their worst verdict, and their frames."""

    files: dict[Kind, int]
    frames: int
    """Frames compared or refused."""
    wrong: int
    refused_with: int
    """Refused frames with a complaint of FFmpeg's."""
    refused_without: int

    @classmethod
    def of(cls, files: Sequence[Sequence[Verdict]], **more: Any) -> Self:
        """Return the counts, from the verdicts of each file."""
        verdicts = [each for file in files for each in file]
        worst = [max((v.kind for v in file), key=_WORSE.index, default="right") for file in files]
        sums = {name: sum(getattr(each, name) for each in verdicts) for name in _SUMMED}
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
    """Number that, with the seed, makes the same file again: `--only`."""
    not_made: str = ""
    """Reason there is no file, or FFmpeg rejects it."""


class DrawCount(Counts):
    """Files of one codec, or all of them."""

    what: str
    draws: int


class DrawsResult(Result):
    """Drawn files: counts, and those with wrong frames."""

    seed: int
    total: DrawCount
    codecs: tuple[DrawCount, ...]
    containers: tuple[DrawCount, ...]
    not_made: int
    """Draws that no encoder here makes, or that FFmpeg rejects."""
    faults: tuple[DrawRow, ...]

    @classmethod
    def of(cls, provenance: Provenance, seed: int, rows: Iterable[DrawRow]) -> Self:
        """Return the count of all draws."""
        rows = list(rows)
        made = [row for row in rows if not row.not_made]
        return cls(
            provenance=provenance,
            seed=seed,
            total=_counted("all", made),
            codecs=_by("codec", made),
            containers=_by("container", made),
            not_made=len(rows) - len(made),
            faults=tuple(row for row in made if row.is_fault),
        )


def _by(name: str, rows: Sequence[DrawRow]) -> tuple[DrawCount, ...]:
    groups = grouped(rows, attrgetter(name))
    return tuple(_counted(kind, groups[kind]) for kind in sorted(groups))


def _counted(what: str, rows: Sequence[DrawRow]) -> DrawCount:
    return DrawCount.of([row.verdicts for row in rows], what=what, draws=len(rows))


_TITLES = {
    "refused with complaint": "refused, FFmpeg complains",
    "refused without": "refused, it does not",
    "traceback": "tracebacks",
    "hang": "hangs",
    "crash": "crashes",
}


def render(result: ConformanceResult) -> str:
    """Return the tables of headrace and of each library, as text."""
    rows = result.rows
    read = [row for row in rows if row.state == "read"]
    parts = [
        f"{len(rows)} files: {len(read)} held against a plain linear decode "
        f"({sum(row.frames for row in read):,} frames), "
        f"{sum(row.complaints > 0 for row in read)} of them with complaints of FFmpeg's; "
        f"{sum(row.state == 'no video' for row in rows)} no video"
    ]
    for row in rows:
        if row.state == "no video":
            parts.append(f"  {row.name}: no video: {row.reason}")
        elif row.state != "read":
            parts.append(f"  {row.name}: the plain decode {_ENDS[row.state]}: {row.reason}")
    for party in dict.fromkeys(count.party for count in result.summary):
        about = result.versions.get(party, {})
        named = ", ".join(f"{name} {version}" for name, version in about.items())
        parts.append(f"\n{party}" + (f" ({named})" if named else ""))
        parts.append(_table([count for count in result.summary if count.party == party]))
        parts += _not_right(rows, party)
    return "\n".join(parts)


def _table(counts: Sequence[Count]) -> str:
    titles = [_TITLES.get(kind, kind) for kind in KINDS]
    header = ["variant", *titles, "frames", "of these wrong", "refused"]
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


def _not_right(rows: Sequence[FileRow], party: str) -> Iterator[str]:
    """Yield one line per file with wrong frames, faults of the party first."""
    faults, excused = list[str](), list[str]()
    for row in rows:
        bad = [verdict for verdict in row.of(party) if verdict.kind != "right"]
        if not bad:
            continue
        is_fault = any(each.kind in FAULTS for each in bad)
        what = "; ".join(map(_words, bad))
        reason = next((each.reason for each in bad if each.reason), "")
        says = f" [FFmpeg, at {row.complaints} packets: {row.lines[0]}]" if row.lines else ""
        facts = f"{row.container.split(',')[0]} {row.codec}, {row.frames} frames"
        if party == HEADRACE and row.index_frames not in (None, row.frames):
            facts += f", {row.index_frames} in the index"
        reasons = f" — {reason}" if reason else ""
        lines = faults if is_fault else excused
        lines.append(f"  {row.name} ({facts}): {what}{reasons}{says}")
    for title, lines in ("not right:", faults), ("refused where FFmpeg complains too:", excused):
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
