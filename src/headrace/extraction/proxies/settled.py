"""What became of the proxies of a plan, in this run and those before it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.decode.proxy_rows import ProxyRow
from headrace.extraction.ledger import Entry, Ledger
from headrace.extraction.proxies.plan import ProxyPlan
from headrace.profiling.input_records import LostFrame, lost_frame
from headrace.video.loss import Loss

_CONCEALED: Final = "the file is damaged there; the proxy shows what FFmpeg shows instead"


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What became of the proxies of a plan."""

    plan: ProxyPlan
    entries: Mapping[str, Entry]
    """Name of a chunk that is done → its entry: a proxy, or why there can be none."""
    fallen: Mapping[str, str]
    """Name of a chunk that ended its workers, or cannot be read any more → how."""

    @classmethod
    def of(cls, ledger: Ledger, plan: ProxyPlan, fallen: Mapping[str, str]) -> "Settled":
        """Return what the ledger tells. Asks for the size of every file."""
        entries = ledger.done(chunk.name for chunk in plan.chunks)
        return cls(plan=plan, entries=entries, fallen=fallen)

    @property
    def came(self) -> int:
        """Frames that lie in proxies."""
        return sum(row.frames for _, row in self.rows())

    def rows(self) -> Iterator[tuple[int, ProxyRow]]:
        """Yield number of the video and row of each proxy, in order."""
        for chunk in self.plan.chunks:
            entry = self.entries.get(chunk.name)
            if entry is not None and entry.files:
                yield chunk.video, ProxyRow.parse(entry.facts)

    def lost(self) -> Iterator[LostFrame]:
        """Yield videos without a proxy, then frames that are shown as FFmpeg shows them."""
        for chunk in self.plan.chunks:
            entry = self.entries.get(chunk.name)
            why = entry.facts["left_out"] if entry and not entry.files else None
            why = why or (None if entry else self.fallen.get(chunk.name))
            if why is not None:
                source = str(self.plan.indexes[chunk.video].source)
                loss = Loss(source=source, index=None, cause=str(why))
                yield lost_frame(loss, self.plan.places[chunk.video])
        for video, row in self.rows():
            for number in row.lost:
                loss = Loss.at(self.plan.indexes[video], number, _CONCEALED, is_concealed=True)
                yield lost_frame(loss, self.plan.places[video])


def entry_without(why: str) -> Entry:
    """Return the entry of a video of which no proxy can be made."""
    return Entry(files=(), facts={"left_out": why})
