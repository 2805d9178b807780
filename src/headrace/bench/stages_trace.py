"""What `bench stages` leaves for other tools: a trace for Perfetto, and TensorBoard's log."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from headrace.bench.stages_line import SequentialStages
from headrace.bench.stages_record import TRACE, StagesTurn
from headrace.profiling.provenance import Provenance
from headrace.profiling.step_trace import WARMUP_STEPS, StepTrace
from headrace.profiling.tensorboard_log import stage_scalars, writing
from headrace.profiling.torch_events import warm_up
from headrace.profiling.trace import Journey, write_trace
from headrace.runs.instruments import TENSORBOARD_TRACE
from headrace.runs.marks import opened_log, prepare_marks
from headrace.runs.options import MarkOptions
from headrace.runs.start import StartWatch
from headrace.runtime.clock import Clock

_TRACED: Final = 10
"""Batches whose work of PyTorch is in the trace: a look at each kind, and some 100 kB."""


def check_log(tensorboard: Path | None, clock: Clock) -> None:
    """Raise before anything is measured where TensorBoard's log cannot be written.

    Raises:
        BackendError: the package `tensorboard` is not installed.
        ConfigError: its folder cannot be made.
    """
    prepare_marks(MarkOptions(tensorboard=tensorboard), StartWatch(clock))


def write_stage_trace(
    line: SequentialStages, out: Path | None, logs: Path | None, clock: Clock
) -> int:
    """Take some more batches, with the profiler on, and write what it saw.

    Args:
        line: The stages, as they were timed.
        out: Folder of the results; None takes no trace.
        logs: Folder of TensorBoard's log, where the trace is put too.
        clock: What times.

    Returns:
        Batches that the trace shows PyTorch's work of.

    Raises:
        ConfigError: it cannot be written.
    """
    if out is None:
        return 0
    warm_up()
    origin_ns, trace = clock.now_ns(), StepTrace(_TRACED, clock)
    with closing(trace):
        for number in range(WARMUP_STEPS + _TRACED):
            line.take(number, trace.marks)
            trace.add(Journey(number=number, stages=line.roles))
    events = trace.events(origin_ns=origin_ns)
    write_trace(out / TRACE, events)
    if logs is not None:
        write_trace(logs / TENSORBOARD_TRACE, events)
    return trace.steps


def write_log(
    turns: Sequence[StagesTurn], tensorboard: Path | None, made: Provenance
) -> Path | None:
    """Write the times of each batch where TensorBoard reads them; return the folder of this log.

    It is written when all was timed, so that it disturbs nothing.

    Args:
        turns: What was timed.
        tensorboard: Folder of all logs; None writes none.
        made: Where the record comes from.

    Raises:
        ConfigError: it cannot be written.
    """
    if tensorboard is None:
        return None
    logs = tensorboard / f"bench_stages_P_{made.pid or 0}"
    batches = [
        dict(zip(turn.work_ms, batch, strict=True))
        for turn in turns
        for batch in zip(*turn.work_ms.values(), strict=True)
    ]
    with writing(), closing(opened_log(logs)) as writer:
        for number, work_ms in enumerate(batches):
            for tag, value in stage_scalars(work_ms, sum(work_ms.values())):
                writer.add_scalar(tag, value, number)
    return logs
