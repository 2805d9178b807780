"""What came out of files drawn at random, as values."""

from collections.abc import Iterable, Sequence
from typing import Self

from benchmarks.conformance.verdict import FAULTS, KINDS, Kind, Verdict
from benchmarks.record import Result
from headrace.profiling.provenance import Provenance, Record

JOBS, PASS = "jobs", "one pass"
"""The two ways: jobs in random order on one decoder, and every frame in one job."""


_WORSE: tuple[Kind, ...] = (
    *("right", "refused with complaint", "refused without", "wrong"),
    *("traceback", "hang", "crash"),
)
"""From good to bad."""


class DrawRow(Record):
    """One file: what was drawn, and what each way made of it."""

    number: int
    """With the seed it makes the same file again: `--only`."""
    name: str
    """What was drawn."""
    codec: str = ""
    container: str = ""
    frames: int = 0
    """Of the plain decode."""
    complaints: int = 0
    """Packets at which FFmpeg complains."""
    not_made: str = ""
    """Why there is no such file, or FFmpeg takes it for no video."""
    verdicts: tuple[Verdict, ...] = ()

    @property
    def is_fault(self) -> bool:
        """Whether headrace does what it must never do."""
        return any(each.kind in FAULTS for each in self.verdicts)


class DrawCount(Record):
    """Files of one codec, or all of them."""

    what: str
    draws: int
    files: dict[Kind, int]
    """By the worst that happened in them."""
    frames: int
    """That were compared, or refused."""
    wrong: int
    refused_with: int
    """Refused where FFmpeg complains too."""
    refused_without: int

    @classmethod
    def of(cls, what: str, rows: Sequence[DrawRow]) -> Self:
        """Count `rows`."""
        verdicts = [each for row in rows for each in row.verdicts]
        worst = [
            max((each.kind for each in row.verdicts), key=_WORSE.index, default="right")
            for row in rows
        ]
        return cls(
            what=what,
            draws=len(rows),
            files={kind: worst.count(kind) for kind in KINDS},
            frames=sum(each.frames for each in verdicts),
            wrong=sum(each.wrong for each in verdicts),
            refused_with=sum(each.refused_with for each in verdicts),
            refused_without=sum(each.refused_without for each in verdicts),
        )


class DrawsResult(Result):
    """Files drawn at random: their counts, and those that are not right."""

    seed: int
    total: DrawCount
    codecs: tuple[DrawCount, ...]
    containers: tuple[DrawCount, ...]
    not_made: int
    """Draws that no encoder here makes, or that FFmpeg takes for no video."""
    faults: tuple[DrawRow, ...]

    @classmethod
    def of(cls, provenance: Provenance, seed: int, rows: Iterable[DrawRow]) -> Self:
        """Count all that was drawn."""
        rows = list(rows)
        made = [row for row in rows if not row.not_made]
        return cls(
            provenance=provenance,
            seed=seed,
            total=DrawCount.of("all", made),
            codecs=_by(made, [row.codec for row in made]),
            containers=_by(made, [row.container for row in made]),
            not_made=len(rows) - len(made),
            faults=tuple(row for row in made if row.is_fault),
        )


def _by(rows: Sequence[DrawRow], names: Sequence[str]) -> tuple[DrawCount, ...]:
    pairs = list(zip(names, rows, strict=True))
    return tuple(
        DrawCount.of(name, [row for other, row in pairs if other == name])
        for name in sorted(set(names))
    )
