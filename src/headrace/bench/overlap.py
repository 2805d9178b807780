"""What working on several frames at once gains: stages in turn, in threads, in processes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.model_choice import (
    SMALL_MODEL,
    ModelName,
    OnDevice,
    Prepared,
    Weights,
    compute_of,
    indexes_of,
)
from headrace.bench.record import ExperimentRecord
from headrace.errors import StageError
from headrace.measuring.config_fields import Option, Videos, check_options
from headrace.measuring.interleaved import Stopwatch, Turn, take_turns

if TYPE_CHECKING:
    from headrace.bench.overlap_work import Answer, Passage, Work

Way = Literal["sequential", "threads", "processes"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)

OFFERED: Final = 0.7
"""Of what the sequential way manages at full speed, the rate at which latency is measured: low
enough for all ways to keep up with, so that none of them measures its queue."""
_SETTLING: Final = 10
"""Frames at the start of a turn that are not counted: threads begin, the decoder fills."""
_FEWEST: Final = 20
"""Frames of a turn that are counted, however slow they are."""


@dataclass(frozen=True, kw_only=True)
class OverlapConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = SMALL_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Annotated[
        int | None,
        Option("Threads of one operation of PyTorch; with 1, only stages run at once.", least=1),
    ] = 1
    seconds: Annotated[float, Option("How long a turn takes, about.", above=0, most=3600)] = 3.0
    repeats: Annotated[int, Option("Turns of each way, at full speed and paced.", least=1)] = 2

    def __post_init__(self) -> None:
        check_options(self)


class OverlapTurn(Turn):
    """One way, once."""

    way: Way
    fps: PositiveFloat
    """(N - 1) ÷ (last frame out - first frame out) of the frames that count."""
    latency_ms: tuple[float, ...] = ()
    """Of each frame that counts, from when it was due until it had been shown; empty at full speed,
    where there is none."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage -> mean work on a frame."""


class OverlapRecord(ExperimentRecord):
    """What was measured."""

    videos: PositiveInt
    frames: PositiveInt
    """Of a turn that count."""
    settling: NonNegativeInt
    """Frames before them that do not."""
    offered_fps: PositiveFloat
    """At which latency was measured."""
    model_seconds: NonNegativeFloat
    """Loading the model and warming it up; before all turns."""
    processes_seconds: NonNegativeFloat
    """Starting the processes, their model included; before all turns."""
    compared: PositiveInt
    """Frames whose class, confidence and picture were the same in every turn of every way."""
    turns: tuple[OverlapTurn, ...]


def measure_overlap(config: OverlapConfig, context: Context) -> OverlapRecord:
    """Time all ways on the same frames, in turns: at full speed, and at a rate all keep up with.

    Raises:
        StageError: a process ended, or ways differ in what they give, which is a fault of headrace.
    """
    from headrace.bench.overlap_variants import InProcesses, sequential
    from headrace.bench.overlap_work import ready_work
    from headrace.live.replayed import Replayed
    from headrace.models.threads import operation_threads

    made, compute = context.provenance(config), compute_of(config)
    indexes = indexes_of(config.videos, context.store)
    context.on_progress("loading the model", 0, 0)
    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute, context.clock)
        context.on_progress("starting processes", 0, 0)
        with InProcesses(indexes, compute, work, context.clock) as processes:
            context.on_progress("rehearsing", 0, 0)
            endless = Replayed(indexes, speed=None)
            fps = _rehearsed(sequential(work, endless, context.clock), config.seconds)
            frames = max(_FEWEST, round(fps * config.seconds)) + _SETTLING
            played = sum(map(len, indexes)) / sum(each.duration_seconds for each in indexes)
            contest = _Contest(
                ways=_ways(work, indexes, processes, context),
                frames=frames,
                clock=context.clock,
            )
            turns = take_turns(
                [(way, speed) for speed in (None, OFFERED * fps / played) for way in WAYS],
                contest.take,
                repeats=config.repeats,
                label=lambda each: f"{each[0]}, {'full speed' if each[1] is None else 'paced'}",
                on_progress=context.on_progress,
            )
    return OverlapRecord(
        provenance=made,
        videos=len(indexes),
        frames=frames - _SETTLING,
        settling=_SETTLING,
        offered_fps=OFFERED * fps,
        model_seconds=model_seconds,
        processes_seconds=processes.start_seconds,
        compared=frames,
        turns=turns,
    )


def _ways(work: "Work", indexes: Sequence[Any], processes: Any, context: Context) -> dict[Way, Any]:
    """Return what runs each way: given frames and speed, it yields the passages."""
    from headrace.bench.overlap_variants import sequential, threaded
    from headrace.live.replayed import Replayed

    def source(frames: int, speed: float | None) -> Replayed:
        return Replayed(indexes, frames=frames, speed=speed)

    return {
        "sequential": lambda *order: sequential(work, source(*order), context.clock),
        "threads": lambda *order: threaded(work, source(*order), context.clock),
        "processes": processes.passages,
    }


@dataclass(kw_only=True)
class _Contest:
    """Runs turns, and holds the answers of each against those of the first."""

    ways: dict[Way, Any]
    frames: int
    clock: Any
    answers: "tuple[Answer, ...] | None" = None

    def take(self, contender: tuple[Way, float | None]) -> OverlapTurn:
        way, speed = contender
        watch = Stopwatch(self.clock)
        passages: list[Passage] = list(self.ways[way](self.frames, speed))
        spent = watch.turn(watch.seconds)
        self._compare(way, passages)
        counted = passages[_SETTLING:]
        stages = counted[0].work_ns
        return OverlapTurn(
            **spent.model_dump(),
            way=way,
            fps=_fps(counted),
            latency_ms=()
            if speed is None
            else tuple((each.out_ns - each.due_ns) / 1e6 for each in counted),
            work_ms={
                stage: sum(each.work_ns[stage] for each in counted) / len(counted) / 1e6
                for stage in stages
            },
        )

    def _compare(self, way: Way, passages: "Sequence[Passage]") -> None:
        answers = tuple(each.answer for each in passages)
        self.answers = self.answers or answers
        for ours, first in zip(answers, self.answers, strict=False):
            if ours != first:
                raise StageError(
                    f"frame {first.number} gave {first} at first and {ours} by {way}; this is a "
                    "fault of headrace: please report it",
                    stage=way,
                )
        if len(answers) != len(self.answers):
            raise StageError(
                f"{len(self.answers)} frames came out at first and {len(answers)} by {way}; this "
                "is a fault of headrace: please report it",
                stage=way,
            )


def _rehearsed(passages: "Iterable[Passage]", seconds: float) -> float:
    """Return the frames per second of some frames, about half of a turn."""
    taken: list[Passage] = []
    for each in passages:
        taken.append(each)
        counted = taken[_SETTLING:]
        if len(counted) > 1 and counted[-1].out_ns - counted[0].out_ns > seconds * 5e8:
            break
    passages.close()  # type: ignore[attr-defined]
    return _fps(taken[_SETTLING:])


def _fps(passages: "Sequence[Passage]") -> float:
    return (len(passages) - 1) * 1e9 / (passages[-1].out_ns - passages[0].out_ns)
