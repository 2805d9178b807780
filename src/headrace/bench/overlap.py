"""What working on several frames at once gains: stages in turn, in threads, in processes."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.config import ThreadedModelConfig, TurnSeconds, indexes_of
from headrace.config_fields import Option
from headrace.errors import StageError
from headrace.measuring.interleaved import Repetition, Stopwatch, interleave
from headrace.runtime.clock import Clock

if TYPE_CHECKING:
    from headrace.bench.overlap_work import FrameResult, FrameTimeline

Variant = Literal["sequential", "threads", "processes"]
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)

OFFERED: Final = 0.7
"""Of what the sequential way manages at full speed, the rate at which latency is measured: low
enough for all variants to keep up with, so that none of them measures its queue."""
_SETTLING: Final = 10
"""Frames at the start of a turn that are not counted: threads begin, the decoder fills."""
_FEWEST: Final = 20
"""Frames of a turn that are counted, however slow they are."""


@dataclass(frozen=True, kw_only=True)
class OverlapConfig(ThreadedModelConfig):
    """What is measured."""

    threads: Annotated[
        int | None,
        Option("Threads of one operation of PyTorch; with 1, only stages run at once.", least=1),
    ] = 1
    seconds: TurnSeconds = 3.0
    repeats: Annotated[
        int, Option("Repetitions of each way, at full speed and paced.", least=1)
    ] = 2


class OverlapRepetition(Repetition):
    """One variant, once."""

    way: Variant
    fps: PositiveFloat
    """(N - 1) ÷ (last frame out - first frame out) of the frames that count."""
    latency_ms: tuple[float, ...] = ()
    """Of each frame that counts, from when it was due until it had been shown; empty at full speed,
    where there is none."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage -> mean work on a frame."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.fps


class OverlapRecord(BenchmarkRecord):
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
    turns: tuple[OverlapRepetition, ...]


def measure_overlap(config: OverlapConfig, context: Context) -> OverlapRecord:
    """Time all variants on the same frames, in turns: at full speed, and at a rate for all.

    Raises:
        StageError: a process ended, or variants differ in what they give: a fault of headrace.
    """
    from headrace.bench.overlap_variants import in_processes, process_line, sequential, threaded
    from headrace.bench.overlap_work import ready_work
    from headrace.live.realtime_file import LoadGenerator
    from headrace.models.precision_support import operation_threads

    made, compute, clock = context.provenance(config), config.compute_options(), context.clock
    indexes = indexes_of(config.videos, context.store)

    def source(frames: int, speed: float | None) -> LoadGenerator:
        return LoadGenerator(indexes, frames=frames, speed=speed)

    context.on_progress("loading the model", 0, 0)
    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute, clock)
        context.on_progress("starting processes", 0, 0)
        with process_line(indexes, compute, work, clock) as line:
            context.on_progress("rehearsing", 0, 0)
            fps = _rehearsed(
                sequential(work, LoadGenerator(indexes, speed=None), clock), config.seconds
            )
            frames = max(_FEWEST, round(fps * config.seconds)) + _SETTLING
            played = sum(map(len, indexes)) / sum(each.duration_seconds for each in indexes)
            turns = ComparedRepetitions(
                variants={
                    "sequential": lambda *order: sequential(work, source(*order), clock),
                    "threads": lambda *order: threaded(work, source(*order), clock),
                    "processes": lambda *order: in_processes(line, clock, *order),
                },
                frames=frames,
                clock=clock,
            )
            taken = interleave(
                [(name, speed) for speed in (None, OFFERED * fps / played) for name in VARIANTS],
                turns.take,
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
        processes_seconds=line.start_seconds,
        compared=frames,
        turns=taken,
    )


@dataclass(kw_only=True)
class ComparedRepetitions:
    """Takes turns, and holds the answers of each against those of the first."""

    variants: "Mapping[Variant, Callable[[int, float | None], Iterable[FrameTimeline]]]"
    """Given frames and speed, it yields the passages."""
    frames: int
    clock: Clock
    answers: "tuple[FrameResult, ...]" = ()

    def take(self, contender: tuple[Variant, float | None]) -> OverlapRepetition:
        """Take the turn of a variant at a speed.

        Raises:
            StageError: it gives something else than the first turn did.
        """
        name, speed = contender
        watch = Stopwatch(self.clock)
        passages = list(self.variants[name](self.frames, speed))
        spent = watch.turn(watch.seconds)
        self._compare(name, tuple(each.answer for each in passages))
        counted = passages[_SETTLING:]
        late = () if speed is None else counted
        return OverlapRepetition(
            **spent.model_dump(),
            way=name,
            fps=_fps(counted),
            latency_ms=tuple((each.out_ns - each.due_ns) / 1e6 for each in late),
            work_ms={
                stage: sum(each.work_ns[stage] for each in counted) / len(counted) / 1e6
                for stage in counted[0].work_ns
            },
        )

    def _compare(self, name: Variant, answers: "tuple[FrameResult, ...]") -> None:
        self.answers = self.answers or answers
        differing = [
            f"frame {first.number} gave {first} at first and {ours}"
            for ours, first in zip(answers, self.answers, strict=False)
            if ours != first
        ]
        if len(answers) != len(self.answers):
            differing.append(f"{len(self.answers)} frames came out at first and {len(answers)}")
        if differing:
            raise StageError(
                f"{differing[0]} by {name}; this is a fault of headrace: please report it",
                stage=name,
            )


def _rehearsed(passages: "Generator[FrameTimeline, None, None]", seconds: float) -> float:
    """Return the frames per second of some frames, about half of a turn."""
    taken: list[FrameTimeline] = []
    for each in passages:
        taken.append(each)
        counted = taken[_SETTLING:]
        if len(counted) > 1 and counted[-1].out_ns - counted[0].out_ns > seconds * 5e8:
            break
    passages.close()
    return _fps(taken[_SETTLING:])


def _fps(passages: "Sequence[FrameTimeline]") -> float:
    return (len(passages) - 1) * 1e9 / (passages[-1].out_ns - passages[0].out_ns)
