"""What came out of a conformance run, as values: a verdict per file and way, and their counts."""

from collections.abc import Iterable, Sequence
from typing import Literal

from benchmarks.record import Result
from headrace.profiling.provenance import Record

Kind = Literal[
    "right",
    "wrong",
    "refused with complaint",
    "refused without",
    "traceback",
    "hang",
    "crash",
]
"""What a way made of a file, by the worst that happened."""
KINDS: tuple[Kind, ...] = (
    *("right", "wrong", "refused with complaint", "refused without"),
    *("traceback", "hang", "crash"),
)
FAULTS: frozenset[Kind] = frozenset(
    ["wrong", "refused without", "traceback", "hang", "crash"],
)
"""What headrace must never do."""

HEADRACE = "headrace"
WAYS = ("seek", "plan", "clip", "order", "order-2")
"""Of headrace: see `benchmarks.conformance.ways`; the last on two threads."""
Ending = Literal["done", "traceback", "hang", "crash"]


class Verdict(Record):
    """What one party made of one file in one way; frames that come twice count twice."""

    party: str
    """`headrace`, or the library."""
    way: str
    """How frames were reached: `seek`, `plan`, ..."""
    right: int = 0
    """Frames equal to those of the plain decode."""
    wrong: int = 0
    """Frames that differ, that the plain decode has not, or that are left out without a word."""
    refused_with: int = 0
    """Frames that were refused where FFmpeg complains too."""
    refused_without: int = 0
    """Frames that were refused though no complaint of FFmpeg's reaches them."""
    ending: Ending = "done"
    """How it ended."""
    examples: tuple[str, ...] = ()
    """The first few frames that are not right, in words."""
    reason: str = ""
    """What the party said, the first time; or the last lines of its traceback."""

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
        """Frames that were asked for and answered."""
        return self.right + self.wrong + self.refused_with + self.refused_without


FileState = Literal["read", "no video", "hang", "crash", "failed"]


class FileRow(Record):
    """One file: what it is, what FFmpeg says of it, and a verdict for each way."""

    name: str
    bytes: int
    state: FileState
    """`read`; or it is `no video` for FFmpeg, or the plain decode itself hangs, crashes or fails:
    then nothing can be held against it."""
    reason: str = ""
    """Why it was not read."""
    container: str = ""
    codec: str = ""
    size: tuple[int, int] = (0, 0)
    """(height, width), as stored."""
    frames: int = 0
    """Frames of the plain decode."""
    is_whole: bool = True
    """False where the plain decode was ended early: the file is held against its first frames."""
    has_one_size: bool = True
    """False where frames change their size on the way."""
    complaints: int = 0
    """Packets at which FFmpeg complains."""
    lines: tuple[str, ...] = ()
    """What it says."""
    index_frames: int | None = None
    """Frames of headrace's index, up to the end of the plain decode; None where it made none."""
    loose: int = 0
    """Of these, how many may be more than one frame of the plain decode: see `align`."""
    verdicts: tuple[Verdict, ...] = ()

    def of(self, party: str) -> list[Verdict]:
        """Return the verdicts of one party."""
        return [each for each in self.verdicts if each.party == party]


class Count(Record):
    """One way over all files."""

    party: str
    way: str
    files: dict[Kind, int]
    """Files by the worst that happened in them."""
    frames: int
    wrong: int
    refused_with: int
    refused_without: int


class ConformanceResult(Result):
    """All files, in the order in which they were found."""

    versions: dict[str, dict[str, str]]
    """Party → package → version."""
    summary: tuple[Count, ...]
    rows: tuple[FileRow, ...]

    @property
    def is_met(self) -> bool:
        """Whether headrace did nothing that it must never do."""
        ours = [each for row in self.rows for each in row.of(HEADRACE)]
        return not any(each.kind in FAULTS for each in ours)


def summarise(rows: Iterable[FileRow]) -> tuple[Count, ...]:
    """Count, for each way in the order in which they first occur."""
    ways: dict[tuple[str, str], list[Verdict]] = {}
    for row in rows:
        for verdict in row.verdicts:
            ways.setdefault((verdict.party, verdict.way), []).append(verdict)
    return tuple(_count(party, way, verdicts) for (party, way), verdicts in ways.items())


def _count(party: str, way: str, verdicts: Sequence[Verdict]) -> Count:
    kinds = [each.kind for each in verdicts]
    return Count(
        party=party,
        way=way,
        files={kind: kinds.count(kind) for kind in KINDS},
        frames=sum(each.frames for each in verdicts),
        wrong=sum(each.wrong for each in verdicts),
        refused_with=sum(each.refused_with for each in verdicts),
        refused_without=sum(each.refused_without for each in verdicts),
    )
