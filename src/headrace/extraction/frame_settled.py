"""What became of the frames of a plan, in this run and those before it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_rows import FrameRow, lost_of, rows_of
from headrace.extraction.ledger import Entry, Ledger
from headrace.planning.chunks import Chunk
from headrace.profiling.input_records import LostFrame, lost_frame
from headrace.video.loss import Loss

_CONCEALED: Final = "the file is damaged there; the picture is what FFmpeg shows instead"


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What became of the frames of a plan, in this run and those before it."""

    plan: FramePlan
    entries: Mapping[str, Entry]
    """Name of a chunk that is done → its entry."""
    begun: Mapping[str, Entry]
    """Name of a chunk that is not done → what there is of it."""
    fallen: Mapping[str, str]
    """Name of a chunk that ended its workers, or cannot be read any more → how."""

    @classmethod
    def of(cls, ledger: Ledger, plan: FramePlan, fallen: Mapping[str, str]) -> "Settled":
        """Return what the ledger tells. Asks for the size of every file."""
        entries = ledger.done(chunk.name for chunk in plan.chunks)
        begun = ledger.noted(chunk.name for chunk in plan.chunks if chunk.name not in entries)
        return cls(plan=plan, entries=entries, begun=begun, fallen=fallen)

    @property
    def came(self) -> int:
        """Pictures that lie in the folder."""
        return sum(len(entry.files) for entry in (*self.entries.values(), *self.begun.values()))

    def rows(self) -> Iterator[tuple[int, FrameRow]]:
        """Yield number of the video and row of each picture, in order."""
        for chunk in self.plan.chunks:
            entry = self.entries.get(chunk.name) or self.begun.get(chunk.name)
            yield from ((chunk.video, row) for row in (rows_of(entry) if entry else ()))

    def left_over(self) -> Iterator[tuple[Chunk, int]]:
        """Yield the frames of fallen chunks of which no picture is known, with their chunk."""
        for chunk in self.plan.chunks:
            if chunk.name in self.fallen:
                entry = self.begun.get(chunk.name)
                known = {row.index for row in rows_of(entry)} if entry else set()
                wanted = chunk.of(self.plan.wanted[chunk.video]).tolist()
                yield from ((chunk, number) for number in wanted if number not in known)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to do."""
        settled = {*self.entries, *self.fallen}
        return all(chunk.name in settled for chunk in self.plan.chunks)

    def lost(self) -> Iterator[LostFrame]:
        """Yield frames that did not come, or only as FFmpeg shows them, in order."""
        found = [
            *(
                (video, row.index, _CONCEALED, True)
                for video, row in self.rows()
                if row.is_concealed
            ),
            *((c.video, number, self.fallen[c.name], False) for c, number in self.left_over()),
            *(
                (chunk.video, row.index, row.cause, False)
                for chunk in self.plan.chunks
                if chunk.name in self.entries
                for row in lost_of(self.entries[chunk.name])
            ),
        ]
        for video, number, cause, is_concealed in sorted(found):
            loss = Loss.at(self.plan.indexes[video], number, cause, is_concealed=is_concealed)
            yield lost_frame(loss, self.plan.places[video])
