"""What each stage of a run takes alone: decode, preprocess, model, one after the other."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

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
)
from headrace.bench.stages_record import StagesRecord, StagesTurn
from headrace.decode.open import open_index
from headrace.measuring.config_fields import Option, Videos, check_options
from headrace.measuring.interleaved import Stopwatch, take_turns
from headrace.profiling.stages import Role

if TYPE_CHECKING:
    from headrace.bench.stages_line import SequentialStages

_SETTLING_SECONDS: Final = 1.0
_FEWEST: Final = 3
"""Batches of a turn, however long they take."""


@dataclass(frozen=True, kw_only=True)
class StagesConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = SMALL_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    batch_size: Annotated[int, Option("Frames in a batch.", least=1)] = 8
    seconds: Annotated[float, Option("How long a turn takes, about.", above=0, most=3600)] = 4.0
    repeats: Annotated[int, Option("Turns.", least=1)] = 5
    tensorboard: Annotated[
        Path | None, Option("Folder for TensorBoard: the times of each batch, and the trace.")
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "stages")


def measure_stages(config: StagesConfig, context: Context) -> StagesRecord:
    """Take batches through the stages of a run, one stage at a time; then some more for a trace.

    Raises:
        MediaError: the video cannot be read, or a frame is damaged.
        ConfigError, BackendError: the model cannot be had, or not run so.
    """
    from headrace.bench.overlap_work import ready_work
    from headrace.bench.stages_line import SequentialStages
    from headrace.bench.stages_trace import check_log, write_log, write_stage_trace
    from headrace.models.threads import operation_threads
    from headrace.runs.recording import setup_of

    made, compute = context.provenance(config), compute_of(config, config.batch_size)
    check_log(config.tensorboard, context.clock)
    index = open_index(config.videos[0], context.store)
    context.on_progress("loading the model", 0, 0)
    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute, context.clock)
        with closing(SequentialStages(index, work.model, compute, context.clock)) as line:
            turns = take_turns(
                [config.seconds],
                lambda seconds: _turn(line, seconds, context),
                repeats=config.repeats,
                label=lambda seconds: "one stage at a time",
                warm_up=min(_SETTLING_SECONDS, config.seconds),
                on_progress=context.on_progress,
            )
            logs = write_log(turns, config.tensorboard, made)
            context.on_progress("taking a trace", 0, 0)
            traced = write_stage_trace(line, context.out, logs, context.clock)
    return StagesRecord(
        provenance=made,
        setup=setup_of(compute, work.model, made, draws_video=False),
        size=index.info.upright_size,
        model_seconds=model_seconds,
        turns=turns,
        traced=traced,
    )


def _turn(line: "SequentialStages", seconds: float, context: Context) -> StagesTurn:
    watch = Stopwatch(context.clock)
    batches: list[dict[Role, tuple[int, int]]] = []
    while len(batches) < _FEWEST or watch.seconds < seconds:
        batches.append(line.take())
    spent = watch.turn(watch.seconds)
    return StagesTurn(
        **spent.model_dump(),
        work_ms={role: tuple(each[role][0] / 1e6 for each in batches) for role in line.roles},
        cpu_ms={role: tuple(each[role][1] / 1e6 for each in batches) for role in line.roles},
    )
