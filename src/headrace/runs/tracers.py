"""Tracers of a run: NVTX ranges, a trace for Perfetto, logs for TensorBoard."""

from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import ConfigError
from headrace.extras import require
from headrace.profiling.input_records import EventRecord
from headrace.profiling.metrics import metrics_file_name
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Step
from headrace.profiling.tensorboard_log import TensorBoardLog, writing
from headrace.profiling.torch_trace import WARMUP_STEPS, StepTrace, warm_up
from headrace.profiling.trace import NAME, ItemTrace, NvtxMarks, write_trace
from headrace.runs.model_setup import StartupTimer
from headrace.runs.run_options import TRACE_STEPS, TracingOptions
from headrace.runtime.clock import Clock
from headrace.runtime.pipeline import Run
from headrace.runtime.stage import Item
from headrace.runtime.tracing import NO_OP_TRACER, MultiTracer, Tracer

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def prepare_tracers(options: TracingOptions, timer: StartupTimer) -> None:
    """Check the packages and folders of the tracers; warm up the profiler.

    Raises:
        BackendError: a package is not installed.
        ConfigError: the folder for TensorBoard cannot be created.
    """
    if options.nvtx:
        nvtx_tracer()
    if options.tensorboard is not None:
        _writer_type()
        with writing():
            options.tensorboard.mkdir(parents=True, exist_ok=True)
    if options.trace:
        with timer.part("profiler"):
            warm_up()


def nvtx_tracer() -> NvtxMarks:
    """Return the tracer that writes NVTX ranges.

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


def open_log(folder: Path) -> "SummaryWriter":
    """Create the folder of a TensorBoard log; return its writer.

    Raises:
        BackendError: the package `tensorboard` is not installed.
        ConfigError: the folder cannot be written.
    """
    with writing():
        return _writer_type()(str(folder))


TENSORBOARD_TRACE: Final = "headrace.pt.trace.json.gz"
"""Name of the trace file, as TensorBoard's profiler expects it."""


class RunTracers:
    """Tracers of one run: `with RunTracers(...) as tracers: ...` around it.

    Files are written at the end of the block, also after an error. A trace is complete or missing.

    The block raises:
        BackendError: a package is not installed.
        ConfigError: a file cannot be written.
    """

    def __init__(
        self, options: TracingOptions, folder: Path, origin: Provenance, clock: Clock
    ) -> None:
        """Create the tracers; files are opened with the block.

        Args:
            options: Tracers of the run.
            folder: Folder of the run.
            origin: Provenance of the run's record.
            clock: Clock of the run.

        Raises:
            BackendError: the package `nvtx` is not installed.
        """
        self.outputs: tuple[str, ...] = ()
        """Names of the files written to the folder of the run."""
        self._folder = folder
        self._origin_ns = clock.now_ns()
        self._trace = (
            StepTrace(options.trace_steps or TRACE_STEPS, clock) if options.trace else None
        )
        tracers: list[Tracer] = [self._trace.marks] if self._trace else []
        if options.nvtx:
            tracers.append(nvtx_tracer())
        single = next(iter(tracers), NO_OP_TRACER)
        self.marks: Tracer = MultiTracer(tracers) if len(tracers) > 1 else single
        """Tracer of the run's work."""
        self._log: TensorBoardLog | None = None
        self._logs: Path | None = None
        if options.tensorboard is not None:
            name = metrics_file_name(str(origin.configuration.get("model")), origin.pid or 0)
            self._logs = options.tensorboard / name.removesuffix("_metrics.csv")

    def add(
        self,
        item: Item[Any],
        step: Step,
        run: Run,
        *,
        source_number: int | None = None,
    ) -> None:
        """Record one completed step.

        Args:
            item: Output of the pipeline.
            step: Record of the step.
            run: The pipeline.
            source_number: See `ItemTrace`.

        Raises:
            ConfigError: the log cannot be written.
        """
        if self._trace is not None:
            stages = tuple(span.stage for span in item.spans)
            self._trace.add(
                ItemTrace(number=item.index, stages=stages, source_number=source_number)
            )
        if self._log is not None:
            self._log.add(step, {queue.name: queue.depth for queue in run.queues()})

    def events(self) -> tuple[EventRecord, ...]:
        """Return the event of the traced steps, for the record."""
        trace = self._trace
        if trace is None or trace.began_ns is None or not trace.steps:
            return ()
        first, last = WARMUP_STEPS, WARMUP_STEPS + trace.steps - 1
        return (
            EventRecord(
                at_seconds=max(0.0, (trace.began_ns - self._origin_ns) / 1e9),
                source=None,
                kind="traced",
                words=f"steps {first} to {last} were traced, which slows them down",
            ),
        )

    def __enter__(self) -> "RunTracers":
        if self._logs is not None:
            self._log = TensorBoardLog(open_log(self._logs))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # An earlier error has priority.
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
