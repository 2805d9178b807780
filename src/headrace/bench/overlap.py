"""Pipelining benchmark: stages sequential, in threads and in processes."""

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
"""Offered rate for latency ÷ the sequential rate at full speed: low enough that every variant
keeps up, so that latency does not measure queues."""
_SETTLING: Final = 10
"""Uncounted frames at the start of a repetition: threads start, the decoder fills."""
_FEWEST: Final = 20
"""Min counted frames of a repetition."""


@dataclass(frozen=True, kw_only=True)
class OverlapConfig(ThreadedModelConfig):
    """Options of `bench overlap`."""

    threads: Annotated[
        int | None,
        Option("Threads of one operation of PyTorch; with 1, only stages run at once.", least=1),
    ] = 1
    seconds: TurnSeconds = 3.0
    repeats: Annotated[
        int, Option("Repetitions of each variant, at full speed and paced.", least=1)
    ] = 2


class OverlapRepetition(Repetition):
    """One repetition of one variant."""

    way: Variant
    fps: PositiveFloat
    """(N - 1) ÷ (last frame out - first frame out) of the counted frames."""
    latency_ms: tuple[float, ...] = ()
    """Latency of each counted frame, from its due time until shown; empty at full speed."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage → mean work on a frame."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.fps


class OverlapRecord(BenchmarkRecord):
    """Repetitions of all variants, at full speed and paced."""

    videos: PositiveInt
    frames: PositiveInt
    """Counted frames of a repetition."""
    settling: NonNegativeInt
    """Uncounted frames before them."""
    offered_fps: PositiveFloat
    """Rate at which latency was measured."""
    model_seconds: NonNegativeFloat
    """Seconds to load and warm up the model, before all repetitions."""
    processes_seconds: NonNegativeFloat
    """Seconds to start the processes with their models, before all repetitions."""
    compared: PositiveInt
    """Frames with equal class, confidence and image in every repetition."""
    turns: tuple[OverlapRepetition, ...]


def measure_overlap(config: OverlapConfig, context: Context) -> OverlapRecord:
    """Time all variants on the same frames, interleaved: at full speed and at a common rate.

    Raises:
        StageError: a process ended, or results differ between variants (a bug of headrace).
    """
    from headrace.bench.overlap_variants import in_processes, process_line, sequential, threaded
    from headrace.bench.overlap_work import ready_work
    from headrace.live.realtime_file import LoadGenerator
    from headrace.models.precision_support import operation_threads

    provenance, compute, clock = context.provenance(config), config.compute_options(), context.clock
    indexes = indexes_of(config.videos, context.store)

    def source(frames: int, speed: float | None) -> LoadGenerator:
        return LoadGenerator(indexes, frames=frames, speed=speed)

    context.on_progress("loading the model", 0, 0)
    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute, clock)
        context.on_progress("starting processes", 0, 0)
        with process_line(indexes, compute, work, clock) as line:
            context.on_progress("rehearsing", 0, 0)
            fps = _calibrate(
                sequential(work, LoadGenerator(indexes, speed=None), clock), config.seconds
            )
            frames = max(_FEWEST, round(fps * config.seconds)) + _SETTLING
            played = sum(map(len, indexes)) / sum(index.duration_seconds for index in indexes)
            repetitions = ComparedRepetitions(
                variants={
                    "sequential": lambda *order: sequential(work, source(*order), clock),
                    "threads": lambda *order: threaded(work, source(*order), clock),
                    "processes": lambda *order: in_processes(line, clock, *order),
                },
                frames=frames,
                clock=clock,
            )
            timelines = interleave(
                [(name, speed) for speed in (None, OFFERED * fps / played) for name in VARIANTS],
                repetitions.take,
                repeats=config.repeats,
                label=lambda contender: (
                    f"{contender[0]}, {'full speed' if contender[1] is None else 'paced'}"
                ),
                on_progress=context.on_progress,
            )
    return OverlapRecord(
        provenance=provenance,
        videos=len(indexes),
        frames=frames - _SETTLING,
        settling=_SETTLING,
        offered_fps=OFFERED * fps,
        model_seconds=model_seconds,
        processes_seconds=line.start_seconds,
        compared=frames,
        turns=timelines,
    )


@dataclass(kw_only=True)
class ComparedRepetitions:
    """Repetitions whose results are compared with those of the first one."""

    variants: "Mapping[Variant, Callable[[int, float | None], Iterable[FrameTimeline]]]"
    """Variant → function of frames and speed that yields timelines."""
    frames: int
    clock: Clock
    answers: "tuple[FrameResult, ...]" = ()

    def take(self, contender: tuple[Variant, float | None]) -> OverlapRepetition:
        """Run one repetition of a variant at a speed.

        Raises:
            StageError: the results differ from the first repetition's.
        """
        name, speed = contender
        watch = Stopwatch(self.clock)
        passages = list(self.variants[name](self.frames, speed))
        spent = watch.stop(watch.seconds)
        self._compare(name, tuple(timeline.answer for timeline in passages))
        counted = passages[_SETTLING:]
        late = () if speed is None else counted
        return OverlapRepetition(
            **spent.model_dump(),
            way=name,
            fps=_fps(counted),
            latency_ms=tuple((timeline.out_ns - timeline.due_ns) / 1e6 for timeline in late),
            work_ms={
                stage: sum(timeline.work_ns[stage] for timeline in counted) / len(counted) / 1e6
                for stage in counted[0].work_ns
            },
        )

    def _compare(self, name: Variant, answers: "tuple[FrameResult, ...]") -> None:
        self.answers = self.answers or answers
        differing = [
            f"frame {first.number} gave {first} at first and {result}"
            for result, first in zip(answers, self.answers, strict=False)
            if result != first
        ]
        if len(answers) != len(self.answers):
            differing.append(f"{len(self.answers)} frames came out at first and {len(answers)}")
        if differing:
            raise StageError(
                f"{differing[0]} by {name}; this is a fault of headrace: please report it",
                stage=name,
            )


def _calibrate(passages: "Generator[FrameTimeline, None, None]", seconds: float) -> float:
    """Return the frames per second of about half a repetition."""
    timelines: list[FrameTimeline] = []
    for timeline in passages:
        timelines.append(timeline)
        counted = timelines[_SETTLING:]
        if len(counted) > 1 and counted[-1].out_ns - counted[0].out_ns > seconds * 5e8:
            break
    passages.close()
    return _fps(timelines[_SETTLING:])


def _fps(passages: "Sequence[FrameTimeline]") -> float:
    return (len(passages) - 1) * 1e9 / (passages[-1].out_ns - passages[0].out_ns)
