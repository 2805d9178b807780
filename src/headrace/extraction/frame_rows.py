"""What became of the frames of a chunk: a row for each picture, and one for each frame lost."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from headrace.extraction.ledger import Entry


@dataclass(frozen=True)
class FrameRow:
    """One picture."""

    index: int
    """Place of the frame in presentation order."""
    pts: int
    """When it is shown, in ticks of its video."""
    height: int
    width: int
    """Of the picture."""
    is_concealed: bool
    """Whether it is damaged, and shown as FFmpeg shows it."""
    file: str
    """Name, in the output folder."""
    num_bytes: int
    """Of the file."""


@dataclass(frozen=True)
class LostRow:
    """One frame that was wanted and did not come."""

    index: int
    cause: str


def entry_of(rows: Sequence[FrameRow], lost: Sequence[LostRow]) -> Entry:
    """Return the entry of a chunk, in order of its frames."""
    rows = sorted(rows, key=lambda row: row.index)
    return Entry(
        files=tuple((row.file, row.num_bytes) for row in rows),
        facts={
            "frames": [astuple(row)[:-2] for row in rows],
            "lost": [astuple(row) for row in lost],
        },
    )


def rows_of(entry: Entry) -> Iterator[FrameRow]:
    """Yield the pictures of a chunk, in order."""
    for facts, (file, num_bytes) in zip(entry.facts["frames"], entry.files, strict=True):
        index, pts, height, width, is_concealed = facts
        yield FrameRow(index, pts, height, width, is_concealed, file, num_bytes)


def lost_of(entry: Entry) -> Iterator[LostRow]:
    """Yield the frames of a chunk that did not come, in order."""
    for index, cause in entry.facts["lost"]:
        yield LostRow(index, cause)
