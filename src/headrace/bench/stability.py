"""From which batch size and queue depth on the frame rate of a run is steady."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeAlias

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.config import ThreadedModelConfig, indexes_of
from headrace.bench.stability_search import (
    Candidate,
    StabilityTurn,
    fps_by_iteration,
    next_candidate,
    warm_up_of,
)
from headrace.errors import ConfigError
from headrace.measuring.config_fields import Option
from headrace.measuring.interleaved import Spread, Stopwatch, cores_of_others, grouped
from headrace.report.numbers import counted, seconds
from headrace.runtime.clock import Clock
from headrace.runtime.pipeline import Pipeline
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    from headrace.bench.overlap_work import Work

ITERATIONS: Final = 100
"""That the figure is defined over, at least; fewer are a look at what it does."""

Batches: TypeAlias = Annotated[tuple[int, ...], Option("Frames in a batch.", least=1)]


@dataclass(frozen=True, kw_only=True)
class StabilityConfig(ThreadedModelConfig):
    """What is measured."""

    one_video_of: ClassVar = "stability"
    target: Annotated[
        float, Option("Steady is a CV of the FPS by iteration below this.", above=0, most=1)
    ] = 0.05
    iterations: Annotated[
        int, Option("Batches that count in a turn; 100 or more tell a CV.", least=20)
    ] = ITERATIONS
    batch_sizes: Batches = (1, 2, 4, 8, 16)
    queue_depths: Annotated[
        tuple[int, ...], Option("Batches that may wait behind each stage.", least=1)
    ] = (1, 2, 4, 8)
    repeats: Annotated[int, Option("Turns of each candidate; the median counts.", least=1)] = 3
    max_seconds: Annotated[
        float, Option("No candidate is begun that would end later; the first is.", above=0)
    ] = 90.0


class StabilityRecord(BenchmarkRecord):
    """What was measured."""

    target: PositiveFloat
    iterations: PositiveInt
    repeats: PositiveInt
    run_depth: PositiveInt
    """Batches that may wait behind each stage of `headrace run`."""
    max_seconds: PositiveFloat
    model_seconds: NonNegativeFloat
    """Loading the model and warming it up; before all turns."""
    left_out: tuple[PositiveInt, ...]
    """Batch sizes that the video has too few frames for."""
    unbegun: tuple[PositiveInt, PositiveInt] | None
    """Batch size and queue depth that there was no time for; None where the search came to its
    end."""
    turns: tuple[StabilityTurn, ...]
    """As they were timed."""


@dataclass(frozen=True, kw_only=True)
class StabilityRow:
    """The turns of one candidate."""

    candidate: Candidate
    cv: Spread
    rate: Spread
    """Frames per second."""
    others: float | None
    interval_cv: float
    """Of the times between results; median."""
    fps: tuple[float, ...]
    """By iteration, of the turn whose CV is nearest the median."""
    warm_up: int
    target: float

    @property
    def holds(self) -> bool:
        """Whether it is steady, by the median."""
        return self.cv.median < self.target

    @property
    def is_certain(self) -> bool:
        """Whether every turn says the same."""
        return self.cv.highest < self.target or self.cv.lowest >= self.target


def announce(config: StabilityConfig) -> str:
    """Say how long it can take."""
    return (
        f"Time: about {seconds(config.max_seconds)} (--max-seconds), more only if the first "
        "candidate takes more"
    )


def measure_stability(config: StabilityConfig, context: Context) -> StabilityRecord:
    """Try candidates until the smallest is known that is steady, or the time is over."""
    from headrace.bench.overlap_work import ready_work
    from headrace.models.threads import operation_threads

    [index] = indexes_of(config.videos, context.store)
    batch_sizes = _possible(config.batch_sizes, len(index), str(index.source))
    made = context.provenance(config)
    clock, turns = context.clock, list[StabilityTurn]()
    tried, unbegun = list[tuple[Candidate, bool]](), None
    with operation_threads(config.threads):
        work, model_seconds = ready_work(config.compute_options(max(batch_sizes)), clock)
        began_ns = clock.now_ns()
        while (one := next_candidate(tried, batch_sizes, config.queue_depths)) is not None:
            left = config.max_seconds - (clock.now_ns() - began_ns) / 1e9
            if tried and _needed_seconds(turns, one, config.repeats) > left:
                unbegun = (one.batch_size, one.queue_depth)
                break
            own = []
            for _ in range(config.repeats):
                context.on_progress(str(one), len(turns), 0)
                own.append(
                    take_stability_turn(work, index, one, iterations=config.iterations, clock=clock)
                )
                turns.append(own[-1])
            tried.append((one, median(turn.cv for turn in own) < config.target))
    return StabilityRecord(
        provenance=made,
        target=config.target,
        iterations=config.iterations,
        repeats=config.repeats,
        run_depth=Pipeline.capacity,
        max_seconds=config.max_seconds,
        model_seconds=model_seconds,
        left_out=tuple(size for size in config.batch_sizes if size not in batch_sizes),
        unbegun=unbegun,
        turns=tuple(turns),
    )


def rows_of(record: StabilityRecord) -> tuple[StabilityRow, ...]:
    """Return a row for each candidate, the smallest first."""
    groups = grouped(record.turns, lambda turn: turn.candidate)
    return tuple(_row(record, groups[candidate]) for candidate in sorted(groups))


def _row(record: StabilityRecord, turns: Sequence[StabilityTurn]) -> StabilityRow:
    cv = Spread.of([turn.cv for turn in turns])
    typical = min(turns, key=lambda turn: math.fabs(turn.cv - cv.median))
    return StabilityRow(
        candidate=turns[0].candidate,
        cv=cv,
        rate=Spread.of([turn.frames_per_second for turn in turns]),
        others=cores_of_others(turns),
        interval_cv=median(turn.interval_cv for turn in turns),
        fps=typical.fps,
        warm_up=typical.warm_up,
        target=record.target,
    )


def _possible(batch_sizes: Sequence[int], frames: int, source: str) -> tuple[int, ...]:
    possible = tuple(size for size in batch_sizes if size <= frames)
    if not possible:
        raise ConfigError(
            f"batches of {min(batch_sizes)} frames were asked for, and {source} has "
            f"{counted(frames, 'frame')}; give smaller --batch-sizes or a longer video"
        )
    return possible


def _needed_seconds(turns: Sequence[StabilityTurn], candidate: Candidate, repeats: int) -> float:
    """Predict how long a candidate takes: as long for a frame as those of the last turn."""
    last = turns[-1]
    results = (len(last.fps) + warm_up_of(candidate.queue_depth)) / (len(last.fps) + last.warm_up)
    return repeats * last.seconds * results * candidate.batch_size / last.batch_size


def take_stability_turn(
    work: "Work", index: StreamIndex, candidate: Candidate, *, iterations: int, clock: Clock
) -> StabilityTurn:
    """Run a video through the stages of `headrace run`; nothing is drawn or written.

    It begins again where it is short. It ends while there is more to read, so that all stages are
    busy to the end.

    Args:
        work: The model, ready, and its preprocessing.
        index: Of the video, which has at least as many frames as a batch.
        candidate: Batch size and queue depth.
        iterations: Whole batches that count.
        clock: What measures.

    Raises:
        MediaError: a frame cannot be decoded.
        StageError: the model fails.
    """
    from headrace.runs.reading import batches_of
    from headrace.runs.stages import SOURCE, Carriers, stages_of

    batch_size, warm_up = candidate.batch_size, warm_up_of(candidate.queue_depth)
    whole = len(index) // batch_size
    # One pass more than is needed: what is under way when it ends.
    passes = -(-(warm_up + 1 + iterations) // whole) + 1
    under_way = -(-8 * candidate.queue_depth // whole)
    carriers = Carriers.of(work.model, prep_on_gpu=False)
    pipeline = Pipeline(
        source=batches_of([index] * (passes + under_way), batch_size=batch_size, clock=clock),
        stages=stages_of(work.prepare, carriers, work.model, sinks=()),
        capacity=candidate.queue_depth,
        source_name=SOURCE,
        marks_source=False,
    )
    out_ns, frames = list[int](), list[int]()
    watch, counted = Stopwatch(clock), 0
    with pipeline.run(clock=clock) as run:
        for number, item in enumerate(run):
            if number < warm_up - 1:
                continue
            out_ns.append(item.spans[-1].end_ns)
            frames.append(item.value.frames)
            counted += len(frames) > 1 and frames[-1] == batch_size
            if counted == iterations:
                break
    spent = watch.turn(watch.seconds)
    fps, total, nanoseconds = fps_by_iteration(out_ns, frames, batch_size)
    return StabilityTurn(
        **spent.model_dump(),
        batch_size=batch_size,
        queue_depth=candidate.queue_depth,
        warm_up=warm_up,
        fps=tuple(fps),
        frames_per_second=total * 1e9 / nanoseconds,
    )
