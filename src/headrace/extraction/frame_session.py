"""From what workers say to the session of an extraction of frames."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.decode import protocol
from headrace.errors import ConfigError, MediaError
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_rows import FrameRow, lost_of, rows_of
from headrace.extraction.ledger import Entry, Ledger
from headrace.extraction.step_watch import PARTS
from headrace.extraction.table import NAME as TABLE
from headrace.planning.chunks import Chunk
from headrace.profiling.flow import StageRecord
from headrace.profiling.inputs import DecodeCounters, LostFrame, with_content
from headrace.profiling.media import lost_frame, summarize
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Outcome, Session
from headrace.profiling.setup import Setup
from headrace.profiling.stages import Role
from headrace.profiling.steps import Step, Steps
from headrace.runtime.child import Json
from headrace.runtime.clock import Clock
from headrace.video.loss import Loss

_ROLES: Final[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "write": "sink"}
_CONCEALED: Final = "the file is damaged there; the picture is what FFmpeg shows instead"


class FrameRecorder:
    """Hears what workers say, in one thread."""

    def __init__(
        self,
        places: Mapping[int, int],
        start_ns: int,
        clock: Clock,
        on_frames: Callable[[int], None],
    ) -> None:
        """Nothing was said yet.

        Args:
            places: Number of a video in the request → its place among the session's inputs.
            start_ns: When the run began.
            clock: Tells when a step came.
            on_frames: Called with how many more frames came or were lost.
        """
        self.steps: list[Step] = []
        self.unreadable: dict[str, str] = {}
        """Name of a chunk whose video could not be opened any more → why."""
        self._places = places
        self._start_ns, self._clock, self._on_frames = start_ns, clock, on_frames
        self._costs = protocol.DecodeCounters()

    def hear(self, chunk: str, said: Json) -> None:
        """Take in what a worker says of a chunk.

        Raises:
            MediaError, ConfigError: what ends the extraction.
        """
        match said:
            case {"step": dict(step)}:
                self._step(step)
            case {"chunk": {"decode": dict(cost), "lost": int(lost)}}:
                self._costs.count(protocol.DecodeCounters(**cost))
                self._on_frames(lost)
            case {"unreadable": str(why)}:
                self.unreadable[chunk] = why
            case {"failed": {"why": str(why), "source": str(source)}}:
                raise MediaError(why, source=source)
            case {"failed": {"why": str(why)}}:
                raise ConfigError(why)

    @property
    def decode(self) -> DecodeCounters:
        """What decoding cost, of chunks that were done."""
        return DecodeCounters(**vars(self._costs))

    def stages(self, workers: int) -> tuple[StageRecord, ...]:
        """Return the parts of the work as stages: each waits while the others work."""
        return tuple(
            StageRecord(
                name=name,
                role=_ROLES[name],
                workers=workers,
                items=len(self.steps),
                busy_seconds=sum(step.work_ms[name] for step in self.steps) / 1e3,
                starved_seconds=0.0,
                blocked_seconds=0.0,
            )
            for name in (PARTS if self.steps else ())
        )

    def _step(self, said: Mapping[str, Any]) -> None:
        ended_ms = (self._clock.now_ns() - self._start_ns) / 1e6
        total_ms = min(ended_ms, float(said["total_ms"]))
        self.steps.append(
            Step(
                step=len(self.steps),
                input=self._places[int(said["video"])],
                first_index=int(said["first_index"]),
                frames=int(said["frames"]),
                started_ms=ended_ms - total_ms,
                work_ms=dict(said["work_ms"]),
                total_ms=total_ms,
            )
        )
        self._on_frames(int(said["frames"]))


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What became of the frames of a plan, in this run and those before it."""

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
        return cls(entries=entries, begun=begun, fallen=fallen)

    @property
    def pictures(self) -> int:
        """Pictures that lie in the folder."""
        return sum(len(entry.files) for entry in (*self.entries.values(), *self.begun.values()))

    def rows(self, plan: FramePlan) -> Iterator[tuple[int, FrameRow]]:
        """Yield number of the video and row of each picture, in order."""
        for chunk in plan.chunks:
            entry = self.entries.get(chunk.name) or self.begun.get(chunk.name)
            yield from ((chunk.video, row) for row in (rows_of(entry) if entry else ()))

    def left_over(self, plan: FramePlan) -> Iterator[tuple[Chunk, int]]:
        """Yield the frames of fallen chunks of which no picture is known, with their chunk."""
        for chunk in plan.chunks:
            if chunk.name in self.fallen:
                entry = self.begun.get(chunk.name)
                known = {row.index for row in rows_of(entry)} if entry else set()
                wanted = chunk.of(plan.wanted[chunk.video]).tolist()
                yield from ((chunk, number) for number in wanted if number not in known)

    def is_whole(self, plan: FramePlan) -> bool:
        """Return whether nothing is left to do."""
        return all(chunk.name in self.entries or chunk.name in self.fallen for chunk in plan.chunks)

    def lost(self, plan: FramePlan) -> Iterator[LostFrame]:
        """Yield what did not come, or only as FFmpeg shows it: videos, then frames in order."""
        yield from (lost_frame(loss, 0) for loss in plan.left_out)
        found = [
            *(
                (video, row.index, _CONCEALED, True)
                for video, row in self.rows(plan)
                if row.is_concealed
            ),
            *((c.video, number, self.fallen[c.name], False) for c, number in self.left_over(plan)),
            *(
                (chunk.video, row.index, row.cause, False)
                for chunk in plan.chunks
                if chunk.name in self.entries
                for row in lost_of(self.entries[chunk.name])
            ),
        ]
        for video, number, cause, is_concealed in sorted(found):
            loss = Loss.at(plan.indexes[video], number, cause, is_concealed=is_concealed)
            yield lost_frame(loss, plan.places[video])


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended."""

    outcome: Outcome
    error: str | None = None


def session_of(
    plan: FramePlan, settled: Settled, recorder: FrameRecorder, made: Provenance, ended: Ended
) -> Session:
    """Return the session of a run, without its times. Reads the videos, for their digests."""
    steps = recorder.steps
    return Session(
        kind="extract",
        provenance=made,
        setup=Setup(batch_size=max([step.frames for step in steps], default=1)),
        inputs=with_content([summarize(index) for index in plan.indexes.values()]),
        outcome=ended.outcome,
        error=ended.error,
        wall_seconds=0.0,
        steps=Steps.of(steps),
        decode=recorder.decode,
        lost=tuple(settled.lost(plan)),
        outputs=(TABLE,) if ended.outcome == "complete" else (),
    )
