"""Tracers of a run: NVTX ranges, a trace for Perfetto, logs for TensorBoard."""

from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import ConfigError
from headrace.extras import require
from headrace.profiling.input_records import EventRecord
from headrace.profiling.metrics_csv import metrics_file_name
from headrace.profiling.provenance import Provenance
from headrace.profiling.steps import Step
from headrace.profiling.tensorboard_log import TensorBoardLog, writing
from headrace.profiling.torch_trace import WARMUP_STEPS, StepTrace, warm_up
from headrace.profiling.trace import NAME, ItemTrace, NvtxMarks, write_trace
from headrace.runs.model_setup import StartWatch
from headrace.runs.run_options import TRACE_STEPS, MarkOptions
from headrace.runtime.clock import Clock
from headrace.runtime.item import Item
from headrace.runtime.pipeline import Run
from headrace.runtime.tracing import NO_OP_TRACER, MultiTracer, Tracer

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def prepare_marks(options: MarkOptions, watch: StartWatch) -> None:
    """Check all that can be checked before a run, and set the profiler up; `watch` hears of it.

    Raises:
        BackendError: a package is not installed.
        ConfigError: TensorBoard's folder cannot be made.
    """
    if options.nvtx:
        nvtx_marks()
    if options.tensorboard is not None:
        _writer_type()
        with writing():
            options.tensorboard.mkdir(parents=True, exist_ok=True)
    if options.trace:
        with watch.part("profiler"):
            warm_up()


def nvtx_marks() -> NvtxMarks:
    """Return marks that NVTX hears of.

    Raises:
        BackendError: the package `nvtx` is not installed.
    """
    with require("nvtx", "a run with NVTX ranges"):
        import nvtx
    return NvtxMarks(nvtx.get_domain("headrace"))


def _writer_type() -> "type[SummaryWriter]":
    with require("tensorboard", "a log for TensorBoard"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter


def opened_log(folder: Path) -> "SummaryWriter":
    """Return what writes a log into a folder, which is made.

    Raises:
        BackendError: the package `tensorboard` is not installed.
        ConfigError: it cannot be written there.
    """
    with writing():
        return _writer_type()(str(folder))


TENSORBOARD_TRACE: Final = "headrace.pt.trace.json.gz"
"""A name that TensorBoard's profiler looks for."""


class RunTracers:
    """Those of one run, around it: `with Instruments(...) as instruments: ...`.

    However the block ends, what they recorded is written then; a trace whole or not at all.

    The block raises:
        BackendError: a package is not installed.
        ConfigError: what they recorded cannot be written.
    """

    def __init__(self, options: MarkOptions, folder: Path, made: Provenance, clock: Clock) -> None:
        """Nothing is opened before the block begins.

        Args:
            options: Which.
            folder: Of the run.
            made: Where its record comes from.
            clock: What measures the run.

        Raises:
            BackendError: the package `nvtx` is not installed.
        """
        self.outputs: tuple[str, ...] = ()
        """Files that they wrote into the folder of the run."""
        self._folder = folder
        self._origin_ns = clock.now_ns()
        self._trace = (
            StepTrace(options.trace_steps or TRACE_STEPS, clock) if options.trace else None
        )
        listeners: list[Tracer] = [self._trace.marks] if self._trace else []
        if options.nvtx:
            listeners.append(nvtx_marks())
        self.marks: Tracer = MultiTracer(listeners) if len(listeners) > 1 else NO_OP_TRACER
        """What the run is to tell of its work."""
        if len(listeners) == 1:
            self.marks = listeners[0]
        self._log: TensorBoardLog | None = None
        self._logs: Path | None = None
        if options.tensorboard is not None:
            name = metrics_file_name(str(made.configuration.get("model")), made.pid or 0)
            self._logs = options.tensorboard / name.removesuffix("_metrics.csv")

    def add(
        self,
        item: Item[Any],
        step: Step,
        run: Run,
        *,
        source_number: int | None = None,
    ) -> None:
        """One step has come out.

        Args:
            item: As the pipeline gave it.
            step: Its record.
            run: That it came out of.
            source_number: See `ItemTrace`.

        Raises:
            ConfigError: it cannot be written.
        """
        if self._trace is not None:
            stages = tuple(span.stage for span in item.spans)
            self._trace.add(
                ItemTrace(number=item.index, stages=stages, source_number=source_number)
            )
        if self._log is not None:
            self._log.add(step, {queue.name: queue.depth for queue in run.queues()})

    def events(self) -> tuple[EventRecord, ...]:
        """Return what a reader of the record must know."""
        trace = self._trace
        if trace is None or trace.began_ns is None or not trace.steps:
            return ()
        first, last = WARMUP_STEPS, WARMUP_STEPS + trace.steps - 1
        return (
            EventRecord(
                at_seconds=max(0.0, (trace.began_ns - self._origin_ns) / 1e9),
                source=None,
                kind="traced",
                words=f"steps {first} to {last} were traced, and are slower for it",
            ),
        )

    def __enter__(self) -> "RunTracers":
        if self._logs is not None:
            self._log = TensorBoardLog(opened_log(self._logs))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What went wrong first is what is raised.
        with suppress(ConfigError) if error is not None else nullcontext():
            try:
                self._write_trace()
            finally:
                if self._log is not None:
                    self._log.close()

    def _write_trace(self) -> None:
        if self._trace is None:
            return
        self._trace.close()
        events = self._trace.events(origin_ns=self._origin_ns)
        write_trace(self._folder / NAME, events)
        self.outputs = (NAME,)
        if self._logs is not None:
            write_trace(self._logs / TENSORBOARD_TRACE, events)
