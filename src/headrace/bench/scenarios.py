"""One pipeline in two modes: a video as fast as it can, and as it would be played."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Final, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from headrace.bench.benchmark import Context
from headrace.bench.live_repetition import LiveTurn
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
from headrace.measuring.config_fields import Option, Videos, check_options
from headrace.measuring.interleaved import Spread, cores_of_others, grouped, take_turns

Mode = Literal["offline", "realtime"]
_MODES: Final[tuple[Mode, ...]] = ("offline", "realtime")
_SETTLING_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class ModesConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = SMALL_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    batch_size: Annotated[
        int, Option("Frames in a batch; in real time at most, none waits for others.", least=1)
    ] = 1
    seconds: Annotated[float, Option("How long a turn takes, about.", least=2, most=3600)] = 13.0
    repeats: Annotated[int, Option("Turns of each mode.", least=1)] = 2

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "modes")


class ModesTurn(LiveTurn):
    """One mode, once."""

    mode: Mode


class ModesRecord(ExperimentRecord):
    """What was measured."""

    frame_rate: PositiveFloat
    """Of the video: what real time asks for."""
    model_seconds: NonNegativeFloat
    """Loading the model and warming it up; before all turns."""
    turns: tuple[ModesTurn, ...]


@dataclass(frozen=True, kw_only=True)
class ModesRow:
    """The turns of one mode; medians."""

    mode: Mode
    rate: Spread
    """Frames that came out in a second."""
    others: float | None
    cores: float
    service_p50: float | None
    latency_p50: float | None
    latency_p95: float | None
    jitter: float | None
    fps_cv: float | None
    drop_share: float
    """Of all turns together."""
    per_second: tuple[int, ...]
    """Frames that came out in each whole second of one turn."""


def measure_modes(config: ModesConfig, context: Context) -> ModesRecord:
    """Run one video in both modes, in turns; it begins again where it is shorter than a turn."""
    from headrace.bench.live_load import live_plan, take_live_turn
    from headrace.bench.overlap_work import ready_work
    from headrace.live.replayed import Replayed
    from headrace.models.threads import operation_threads

    made, compute = context.provenance(config), compute_of(config, config.batch_size)
    indexes = indexes_of(config.videos, context.store)

    def take(mode: Mode) -> ModesTurn:
        source = Replayed(indexes, speed=None if mode == "offline" else 1.0)
        plan = live_plan(
            work,
            [source],
            overload="auto",
            batch_size=config.batch_size,
            seconds=config.seconds,
        )
        turn = take_live_turn(
            plan, settling_seconds=_SETTLING_SECONDS, made=made, clock=context.clock
        )
        return ModesTurn(**turn.model_dump(), mode=mode)

    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute, context.clock)
        turns = take_turns(
            _MODES, take, repeats=config.repeats, warm_up=None, on_progress=context.on_progress
        )
    return ModesRecord(
        provenance=made,
        frame_rate=float(indexes[0].frame_rate),
        model_seconds=model_seconds,
        turns=turns,
    )


def rows_of(record: ModesRecord) -> tuple[ModesRow, ...]:
    """Return a row for each mode."""
    return tuple(_row(turns) for turns in grouped(record.turns, lambda turn: turn.mode).values())


def _row(turns: Sequence[ModesTurn]) -> ModesRow:
    dropped = sum(sum(turn.dropped.values()) for turn in turns)
    delivered = sum(turn.delivered for turn in turns)
    return ModesRow(
        mode=turns[0].mode,
        rate=Spread.of([turn.fps for turn in turns]),
        others=cores_of_others(turns),
        cores=median(turn.cores for turn in turns),
        service_p50=_median(turn.service_p50 for turn in turns),
        latency_p50=_median(turn.latency_p50 for turn in turns),
        latency_p95=_median(turn.latency_p95 for turn in turns),
        jitter=_median(turn.jitter for turn in turns),
        fps_cv=_median(turn.fps_cv for turn in turns),
        drop_share=dropped / (delivered + dropped) if dropped else 0.0,
        per_second=max(turns, key=lambda turn: len(turn.per_second)).per_second,
    )


def _median(values: Iterable[float | None]) -> float | None:
    """Return the median; None where one is not known."""
    known = list(values)
    return None if None in known else median(value for value in known if value is not None)
