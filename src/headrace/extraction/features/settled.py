"""What became of the samples of a plan, in this run and those before it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.extraction.features.outcome import Outcome
from headrace.extraction.features.plan import FeaturePlan
from headrace.profiling.input_records import LostFrame, lost_frame
from headrace.video.loss import Loss

_CONCEALED: Final = "the file is damaged there; the feature is of what FFmpeg shows instead"


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What became of all chunks."""

    plan: FeaturePlan
    tabled: Mapping[str, Outcome]
    """Name of a chunk that is in a table → what came of it."""
    parted: Mapping[str, Outcome]
    """Name of a chunk that is done, and in no table yet."""
    fallen: Mapping[str, str]
    """Name of a chunk that ended its workers, or cannot be read any more → how."""

    @property
    def done(self) -> dict[str, Outcome]:
        """Name of a chunk that is done → what came of it."""
        return {**self.parted, **self.tabled}

    @property
    def came(self) -> int:
        """Features that lie in the folder."""
        return sum(outcome.came for outcome in self.done.values())

    def lost(self) -> Iterator[LostFrame]:
        """Yield frames that did not come, or only as FFmpeg shows them, in order."""
        plan, done = self.plan, self.done
        for chunk in plan.chunks:
            index, place = plan.indexes[chunk.video], plan.places[chunk.video]
            if chunk.name in done:
                outcome = done[chunk.name]
                found = [
                    *((number, _CONCEALED, True) for number in outcome.concealed),
                    *((each.index, each.cause, False) for each in outcome.lost),
                ]
            elif chunk.name in self.fallen:
                starts = chunk.of(plan.starts[chunk.video]).tolist()
                found = [(number, self.fallen[chunk.name], False) for number in starts]
            else:
                continue
            for number, cause, is_concealed in sorted(found):
                loss = Loss.at(index, number, cause, is_concealed=is_concealed)
                yield lost_frame(loss, place)
