"""What each stage of a run takes alone: decode, preprocess, model, one after the other."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.config import ThreadedModelConfig
from headrace.bench.suite.suite_spec import StageWork, alone_ms, pace_ms
from headrace.decode.open import open_index
from headrace.measuring.config_fields import Option
from headrace.measuring.interleaved import Spread, Stopwatch, Turn, cores_of_others, take_turns
from headrace.profiling.setup import Setup
from headrace.profiling.stages import Role
from headrace.runtime.distribution import Distribution

if TYPE_CHECKING:
    from headrace.bench.stages_line import SequentialStages


COMPARED: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""L_dec : L_prep : L_inf; a transfer to a device stands apart."""
TRACE: Final = "stages.trace.json.gz"
"""The file of the trace, beside the record."""


class StagesTurn(Turn):
    """All stages, one after the other, batch after batch."""

    work_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role -> wall time of its work on each batch."""
    cpu_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role -> processor time of the whole process meanwhile, on each batch."""

    @property
    def batches(self) -> list[dict[Role, float]]:
        """The wall times of each batch, by role."""
        batches = zip(*self.work_ms.values(), strict=True)
        return [dict(zip(self.work_ms, batch, strict=True)) for batch in batches]


class StagesRecord(BenchmarkRecord):
    """What was measured."""

    setup: Setup
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the video."""
    model_seconds: NonNegativeFloat
    """Loading the model and warming it up; before all turns."""
    turns: tuple[StagesTurn, ...]
    traced: NonNegativeInt = 0
    """Batches in the trace, taken when all turns were over; 0: none was written."""


@dataclass(frozen=True, kw_only=True)
class StagesRow:
    """One stage, over all batches of all turns."""

    role: Role
    ms: float
    """Wall time of its work on a frame, the median batch."""
    p95_ms: float | None
    """None after too few batches."""
    cpu_ms: float
    """Processor time on a frame, the median batch."""
    share: float
    """Of what all stages take together."""
    parts: float
    """So many times what the least of decode, preprocess and model takes."""
    batches: int
    rate: Spread
    """Frames per second of this stage alone, by turns."""
    others: float | None


def rows_of(record: StagesRecord) -> tuple[StagesRow, ...]:
    """Return a row for each stage, in the order the frames take."""
    frames, turns = record.setup.batch_size, record.turns
    found = {
        role: _per_frame([ms for turn in turns for ms in turn.work_ms[role]], frames)
        for role in turns[0].work_ms
    }
    least, whole = min(found[role].p50 for role in COMPARED), sum(d.p50 for d in found.values())
    return tuple(
        StagesRow(
            role=role,
            ms=each.p50,
            p95_ms=each.p95,
            cpu_ms=median(ms / frames for turn in turns for ms in turn.cpu_ms[role]),
            share=each.p50 / whole,
            parts=each.p50 / least,
            batches=each.count,
            rate=Spread.of([1e3 * frames / median(turn.work_ms[role]) for turn in turns]),
            others=cores_of_others(turns),
        )
        for role, each in found.items()
    )


def work_of(rows: Sequence[StagesRow]) -> dict[Role, StageWork]:
    """Return what each stage does to a frame."""
    return {row.role: StageWork(ms=row.ms, cpu_ms=row.cpu_ms) for row in rows}


def _per_frame(batches_ms: Sequence[float], frames: int) -> Distribution:
    found = Distribution.of([ms / frames for ms in batches_ms])
    assert found is not None
    return found


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What would set the pace of a run in which every stage works at the same time.

    A run decodes with a thread for each core and has one thread for each other stage, so at best
    a frame takes as long as the slowest of them, or as all cores together need for it.
    """

    role: Role
    """The stage that would set it; of the cores, the one that takes most of them."""
    is_cores: bool
    """Whether the cores would set it, all of them busy, before any stage alone."""
    ms: float
    """Milliseconds per frame that are left, at best."""
    most: float
    """So many times as fast it would be if that stage took nothing at all."""

    @classmethod
    def of(cls, rows: Sequence[StagesRow], cores: int) -> Self:
        """Return what the rows of the stages tell, for so many usable cores."""
        work = work_of(rows)
        alone = {role: alone_ms(role, each, cores) for role, each in work.items()}
        ms = pace_ms(work, cores)
        is_cores = sum(row.cpu_ms for row in rows) / cores >= max(alone.values())
        takes = {row.role: row.cpu_ms for row in rows} if is_cores else alone
        role = max(takes, key=lambda role: takes[role])
        rest = {other: each for other, each in work.items() if other != role}
        return cls(role=role, is_cores=is_cores, ms=ms, most=ms / pace_ms(rest, cores))

    @property
    def rate(self) -> float:
        """Frames per second, at best."""
        return 1e3 / self.ms


_SETTLING_SECONDS: Final = 1.0
_FEWEST: Final = 3
"""Batches of a turn, however long they take."""


@dataclass(frozen=True, kw_only=True)
class StagesConfig(ThreadedModelConfig):
    """What is measured."""

    one_video_of: ClassVar = "stages"
    batch_size: Annotated[int, Option("Frames in a batch.", least=1)] = 8
    seconds: Annotated[float, Option("How long a turn takes, about.", above=0, most=3600)] = 4.0
    repeats: Annotated[int, Option("Turns.", least=1)] = 5
    tensorboard: Annotated[
        Path | None, Option("Folder for TensorBoard: the times of each batch, and the trace.")
    ] = None


def measure_stages(config: StagesConfig, context: Context) -> StagesRecord:
    """Take batches through the stages of a run, one stage at a time; then some more for a trace.

    Raises:
        MediaError: the video cannot be read, or a frame is damaged.
        ConfigError, BackendError: the model cannot be had, or not run so.
    """
    from headrace.bench.overlap_work import ready_work
    from headrace.bench.stages_line import SequentialStages, check_log, write_log, write_stage_trace
    from headrace.models.threads import operation_threads
    from headrace.runs.recording import setup_of

    made, compute = context.provenance(config), config.compute_options(config.batch_size)
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
            batches = (batch for turn in turns for batch in turn.batches)
            logs = write_log(batches, config.tensorboard, made)
            context.on_progress("taking a trace", 0, 0)
            path = context.out / TRACE if context.out else None
            traced = write_stage_trace(line, path, logs, context.clock)
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
