"""Sequential stages of a run in one thread, and their trace."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np

from headrace.bench.benchmark import Context
from headrace.bench.model_work import ready_work
from headrace.bench.stages import TRACE, StagesConfig, StagesRecord, StagesRepetition
from headrace.decode.open_decoder import open_decoder, open_index
from headrace.decode.protocol import DecodeJob, run_job
from headrace.measuring.interleaved import Stopwatch, interleave
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.provenance import Provenance
from headrace.profiling.run_records import Role
from headrace.profiling.tensorboard_log import stage_scalars, writing
from headrace.profiling.torch_trace import WARMUP_STEPS, StepTrace, warm_up
from headrace.profiling.trace import ItemTrace, write_trace
from headrace.runs.model_setup import StartupTimer, run_setup
from headrace.runs.run_options import ComputeOptions, TracingOptions
from headrace.runs.run_stages import SOURCE, STAGE_ROLES, Transfers, stages_of
from headrace.runs.tracers import TENSORBOARD_TRACE, open_log, prepare_tracers
from headrace.runtime.clock import Clock, processor_ns
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.video.frame_format import FrameFormat
from headrace.video.frames import FrameBatch
from headrace.video.stream_index import StreamIndex

_SETTLING_SECONDS: Final = 1.0
_MIN_BATCHES: Final = 3
"""Min batches of a repetition."""
_TRACED: Final = 10
"""Traced batches; the trace file has about 100 kB."""


def measure_stages(config: StagesConfig, context: Context) -> StagesRecord:
    """Time batches through the stages, one stage at a time; then trace some more batches.

    Raises:
        MediaError: the video cannot be read, or a frame is damaged.
        ConfigError, BackendError: the model is not available, or cannot run with these options;
            TensorBoard is not installed, or its folder cannot be created.
    """
    provenance, clock = context.provenance(config), context.clock
    compute = config.compute_options(config.batch_size)
    prepare_tracers(TracingOptions(tensorboard=config.tensorboard), StartupTimer(clock))
    index = open_index(config.videos[0], context.store)
    context.on_progress("loading the model", 0, 0)
    with (
        ready_work(compute, clock) as (work, model_seconds),
        closing(SequentialStages(index, work.model, compute, clock)) as stages,
    ):
        repetitions = interleave(
            [config.seconds],
            lambda seconds: _time_batches(stages, seconds, clock),
            repeats=config.repeats,
            label=lambda seconds: "one stage at a time",
            warm_up=min(_SETTLING_SECONDS, config.seconds),
            on_progress=context.on_progress,
        )
        batches = (batch for repetition in repetitions for batch in repetition.batches)
        logs = write_log(batches, config.tensorboard, provenance)
        context.on_progress("tracing", 0, 0)
        path = context.out / TRACE if context.out else None
        traced = write_stage_trace(stages, path, logs, clock)
    return StagesRecord(
        provenance=provenance,
        setup=run_setup(compute, work.model, provenance, draws_video=False),
        size=index.info.upright_size,
        model_seconds=model_seconds,
        turns=repetitions,
        traced=traced,
    )


def _time_batches(stages: "SequentialStages", seconds: float, clock: Clock) -> StagesRepetition:
    watch = Stopwatch(clock)
    batches: list[dict[Role, tuple[int, int]]] = []
    while len(batches) < _MIN_BATCHES or watch.seconds < seconds:
        batches.append(stages.take())
    times = watch.stop(watch.seconds)
    work_ms, cpu_ms = (
        {role: tuple(batch[role][column] / 1e6 for batch in batches) for role in stages.roles}
        for column in (0, 1)
    )
    return StagesRepetition(**times.model_dump(), work_ms=work_ms, cpu_ms=cpu_ms)


class SequentialStages:
    """Runs batch after batch of a looping video through the stages of a run, without sinks.

    A stage ends when its work is complete, also on a GPU. Close it after use. For one thread.
    """

    def __init__(
        self, index: StreamIndex, model: Model[Labels], compute: ComputeOptions, clock: Clock
    ) -> None:
        """Open the decoder.

        Args:
            index: Index of the video.
            model: Model, prepared for `compute`.
            compute: Preprocessing and batch size.
            clock: Clock for the timings.
        """
        preprocess = build_preprocess(compute.prep_level, model.input)
        run_stages = stages_of(preprocess, Transfers.of(model, prep_on_gpu=False), model, sinks=())
        self._stages: list[tuple[Role, Callable[[Any], Any]]] = [
            (SOURCE, lambda _: self._decode_batch()),
            *(
                (STAGE_ROLES[stage.name], stage.function)
                for stage in run_stages
                if STAGE_ROLES[stage.name] != "sink"
            ),
        ]
        self._index = index
        self._clock = clock
        size = index.info.upright_size
        self._decoder = open_decoder(index, FrameFormat(size=size))
        # Reused, as in a run: zeroing new pages takes as long as converting a frame.
        self._memory = np.empty((compute.batch_size, *size, 3), np.uint8)
        self._next_frame = 0

    @property
    def roles(self) -> tuple[Role, ...]:
        """Roles of the stages, in order."""
        return tuple(role for role, _ in self._stages)

    def take(self, number: int = 0, marks: Tracer = NO_OP_TRACER) -> dict[Role, tuple[int, int]]:
        """Run one batch through all stages.

        Args:
            number: Number of the batch in traces.
            marks: Tracer of the stages.

        Returns:
            Role → wall time, and CPU time of the whole process; nanoseconds.

        Raises:
            MediaError: a frame cannot be decoded.
        """
        times = {}
        value: Any = None
        for role, function in self._stages:
            with marks.range(role, number):
                start_ns, start_cpu_ns = self._clock.now_ns(), processor_ns()
                value = function(value)
                times[role] = self._clock.now_ns() - start_ns, processor_ns() - start_cpu_ns
        return times

    def close(self) -> None:
        """Release the file."""
        self._decoder.close()

    def _decode_batch(self) -> FrameBatch:
        """Return the next frames, in memory reused by the following batch."""
        indices = (self._next_frame + np.arange(len(self._memory))) % len(self._index)
        self._next_frame, stop = int(indices[-1]) + 1, 0
        # A job ends at the end of the video.
        for wanted in filter(len, np.split(indices, np.flatnonzero(indices == 0))):
            start, stop = stop, stop + len(wanted)
            job = DecodeJob(tuple(wanted.tolist()))
            run_job(self._decoder, job, self._memory[start:stop]).check()
        return FrameBatch(
            frames=self._memory,
            video=0,
            index=indices,
            pts=self._index.pts[indices],
            time_base=self._index.info.time_base,
        )


def write_stage_trace(
    line: SequentialStages, path: Path | None, logs: Path | None, clock: Clock
) -> int:
    """Run some more batches with the profiler on, and write the trace.

    Args:
        line: Timed stages.
        path: Trace file; None: no trace.
        logs: Folder of TensorBoard's log for a copy of the trace; None: no copy.
        clock: Clock for the timings.

    Returns:
        Number of batches with PyTorch operations in the trace.

    Raises:
        ConfigError: the trace cannot be written.
    """
    if path is None:
        return 0
    warm_up()
    origin_ns, trace = clock.now_ns(), StepTrace(_TRACED, clock)
    with closing(trace):
        for number in range(WARMUP_STEPS + _TRACED):
            line.take(number, trace.marks)
            trace.add(ItemTrace(number=number, stages=line.roles))
    events = trace.events(origin_ns=origin_ns)
    write_trace(path, events)
    if logs is not None:
        write_trace(logs / TENSORBOARD_TRACE, events)
    return trace.steps


def write_log(
    batches: Iterable[Mapping[Role, float]], tensorboard: Path | None, provenance: Provenance
) -> Path | None:
    """Write the times of each batch for TensorBoard; return the folder of this log.

    Call it after all measurements, because it disturbs them.

    Args:
        batches: Milliseconds of each stage.
        tensorboard: Folder of all logs; None: no log.
        provenance: Provenance of the record.

    Raises:
        ConfigError: the log cannot be written.
    """
    if tensorboard is None:
        return None
    logs = tensorboard / f"bench_stages_P_{provenance.pid or 0}"
    with writing(), closing(open_log(logs)) as writer:
        for number, work_ms in enumerate(batches):
            for tag, value in stage_scalars(work_ms, sum(work_ms.values())):
                writer.add_scalar(tag, value, number)
    return logs
