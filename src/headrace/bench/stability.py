"""From which batch size and queue depth on the frame rate of a run is steady."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Final, TypeAlias

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.model_choice import (
    SMALL_MODEL,
    ModelName,
    OnDevice,
    Prepared,
    Threads,
    Weights,
    check_one,
    compute_of,
    indexes_of,
)
from headrace.bench.record import ExperimentRecord
from headrace.bench.stability_search import Candidate, next_candidate
from headrace.bench.stability_turn import StabilityTurn, warm_up_of
from headrace.errors import ConfigError
from headrace.measuring.config_fields import Option, Videos, check_options
from headrace.measuring.interleaved import Spread, cores_of_others, grouped
from headrace.report.numbers import counted, seconds

ITERATIONS: Final = 100
"""That the figure is defined over, at least; fewer are a look at what it does."""

Batches: TypeAlias = Annotated[tuple[int, ...], Option("Frames in a batch.", least=1)]


@dataclass(frozen=True, kw_only=True)
class StabilityConfig:
    """What is measured."""

    videos: Videos
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
    model_name: ModelName = SMALL_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    repeats: Annotated[int, Option("Turns of each candidate; the median counts.", least=1)] = 3
    max_seconds: Annotated[
        float, Option("No candidate is begun that would end later; the first is.", above=0)
    ] = 90.0

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "stability")


class StabilityRecord(ExperimentRecord):
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
    from headrace.bench.stability_load import take_stability_turn
    from headrace.models.threads import operation_threads
    from headrace.runtime.pipeline import Pipeline

    [index] = indexes_of(config.videos, context.store)
    batch_sizes = _possible(config.batch_sizes, len(index), str(index.source))
    made = context.provenance(config)
    clock, turns = context.clock, list[StabilityTurn]()
    tried, unbegun = list[tuple[Candidate, bool]](), None
    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute_of(config, max(batch_sizes)), clock)
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
