"""Model of a run, before the first frame: task, cores, loading, warm-up, batch size."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal

from headrace.errors import BackendError, ConfigError
from headrace.models.batch_size import choose_batch_size
from headrace.models.catalogue import check_name, has_custom_weights, names_of, smaller_model
from headrace.models.compute import Compute, Device, Precision
from headrace.models.device import (
    check_available,
    emulation,
    is_out_of_memory,
    operation_threads,
    release_memory,
)
from headrace.models.load import (
    load_classifier,
    load_clip_classifier,
    load_detector,
    with_clip_length,
)
from headrace.models.memory_table import KnownPeaks, MemoryKey, MemoryTables
from headrace.models.model import Compiler, Model, Result, compile_module, prepare
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.machine import describe_machine, versions
from headrace.profiling.provenance import Provenance
from headrace.profiling.run_records import Setup, StartUpPart
from headrace.runs.run_options import ComputeOptions, DetectionOptions, RunOptions
from headrace.runtime.clock import Clock
from headrace.runtime.processor_affinity import bound_to_cores, parse_cores
from headrace.sinks.custom_sink import any_sink_needs_frames
from headrace.sinks.result_rows import check_table

TaskName = Literal["classification", "video", "detection"]
"""Classes of each frame; classes of each clip; boxes in each frame or image."""
_LOADERS: Final = {"classification": load_classifier, "video": load_clip_classifier}


def with_task(options: RunOptions) -> RunOptions:
    """Return the options; for a detector, with detection options.

    The format of the predictions sets the format of the boxes.
    """
    if options.detection is not None or options.compute.model_name not in names_of("detection"):
        return options
    is_table = options.output.predictions == "parquet"
    return replace(options, detection=DetectionOptions(parquet=is_table, lines=not is_table))


def task_name(options: RunOptions) -> TaskName:
    """Return the task of a run, with options from `with_task`."""
    if options.detection is not None:
        return "detection"
    return "video" if options.compute.model_name in names_of("video") else "classification"


def check_task(options: RunOptions) -> None:
    """Check the model and its options. Opens no source.

    Raises:
        ConfigError: the model does not exist, or does not support an option.
        BackendError: an extra is missing.
    """
    check_name(options.compute.model_name, task_name(options))
    any_sink_needs_frames(options.output.sinks)  # imports the sinks
    detection, predictions = options.detection, options.output.predictions
    if detection is not None and options.output.top_k != 1:
        raise ConfigError(
            f"--top-k is for classes of frames, and {options.compute.model_name} returns "
            "boxes with one class each; leave it out"
        )
    if predictions == "parquet" if detection is None else detection.parquet:
        check_table(of_boxes=detection is not None)


def load_model(options: RunOptions) -> Model[Any]:
    """Return the model of a run.

    Raises:
        ConfigError: the weights cannot be loaded or do not fit, or the model does not support the
            clip length.
    """
    name, weights = options.compute.model_name, options.compute.weights
    model: Model[Any]
    if options.detection is not None:
        model = load_detector(name, weights, options.detection.choice)
    else:
        model = _LOADERS[task_name(options)](name, weights, top_k=options.output.top_k)
    return with_clip_length(model, options.clips.clip_len)


class StartupTimer:
    """Timer of the parts of a preparation."""

    def __init__(self, clock: Clock, imports_seconds: float | None = None) -> None:
        """Start with part `imports`: seconds since the process started, if known."""
        self.clock = clock
        self.parts: list[StartUpPart] = []
        """Timed parts, in order."""
        if imports_seconds is not None:
            self.add("imports", imports_seconds)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block as part `name`."""
        start_ns = self.clock.now_ns()
        yield
        self.add(name, (self.clock.now_ns() - start_ns) / 1e9)

    def add(self, name: str, seconds: float) -> None:
        """Add a part that was timed elsewhere."""
        self.parts.append(StartUpPart(name=name, seconds=max(0.0, seconds)))


@contextmanager
def compute_resources(options: ComputeOptions) -> Iterator[None]:
    """Bind the process to the requested cores and threads per operation in the block.

    The default is one thread per bound core. Both settings are global to the process: blocks must
    not overlap.

    Raises:
        ConfigError: a core does not exist.
        BackendError: this system cannot bind a process to cores.
    """
    cores = options.execution.core_bind
    core_ids = None if cores is None else parse_cores(cores)
    threads = options.threads or (None if core_ids is None else len(core_ids))
    with bound_to_cores(core_ids), operation_threads(threads):
        yield


def memory_key(
    model: Model[Any], *, device: Device, precision: Precision, prep_level: PrepLevel
) -> MemoryKey:
    """Return the key of the model's memory measurements on this machine."""
    machine = describe_machine()
    if device == "cuda" and machine.gpus:
        gpu = machine.gpus[0]
        name, memory_bytes, driver = gpu.name, gpu.memory_bytes, gpu.driver
    else:
        name, memory_bytes, driver = machine.cpu, machine.memory_bytes, None
    return MemoryKey(
        device=name,
        memory_bytes=memory_bytes,
        driver=driver,
        torch=versions().get("torch", "unknown"),
        model=model.name,
        precision=precision,
        prep_level=prep_level,
        input=model.input.shape(1, (1, 1))[1:],
    )


def known_peaks(
    model: Model[Any],
    options: ComputeOptions,
    frame_size: tuple[int, int],
    tables: MemoryTables,
) -> KnownPeaks | None:
    """Return the measured peak memory of batches; None: not measured, as for split models."""
    compute = options.compute()
    if compute.split_layer is not None:
        return None
    key = memory_key(
        model,
        device=compute.device,
        precision=compute.precision,
        prep_level=options.prep_level,
    )
    table = tables.load(key)
    if table is None:
        return None
    if compute.device == "cuda" and not options.execution.prep_on_gpu:
        return table.of_model()
    return table.of_frames(frame_size)


_BATCH_SIZE_SECONDS: Final = 10.0
"""Max seconds of the measurement of batch sizes."""


def check_devices(options: ComputeOptions) -> None:
    """Check that the options are consistent and the devices exist. Loads nothing.

    Raises:
        ConfigError, BackendError: see `ready_model`.
    """
    check_available(options.compute())
    if options.execution.prep_on_gpu:
        check_available(Compute(device="cuda"), request="preprocessing on the GPU (--prep-on-gpu)")


def precision_notes(options: ComputeOptions) -> tuple[str, ...]:
    """Return a note if this machine emulates the precision of the options."""
    note = emulation(options.compute())
    return () if note is None else (note,)


def random_weights_notes(options: ComputeOptions) -> tuple[str, ...]:
    """Return a note if the weights are random."""
    if options.weights != "none":
        return ()
    return ("random weights (--weights none): the labels and boxes mean nothing",)


def ready_model(
    load: Callable[[], Model[Result]],
    options: ComputeOptions,
    *,
    batch_size: int,
    frame_size: tuple[int, int] = (480, 640),
    timer: StartupTimer,
    compiler: Compiler = compile_module,
) -> Model[Result]:
    """Return the loaded model, warm on its device.

    `timer` receives the durations. `frame_size` is the (height, width) of the frames, for models
    without an input size.

    Raises:
        ConfigError: see `load`; or the options contradict each other.
        BackendError: the device is missing, or cannot run the model with batches of this size.
    """
    return prepare(
        load,
        options.compute(),
        batch_size=batch_size,
        frame_size=frame_size,
        clock=timer.clock,
        compiler=compiler,
        on_part=timer.add,
    )


def fit_model(
    load: Callable[[], Model[Result]],
    options: ComputeOptions,
    *,
    frame_size: tuple[int, int],
    frames: int,
    tables: MemoryTables,
    timer: StartupTimer,
    compiler: Compiler = compile_module,
) -> tuple[Model[Result], int, tuple[str, ...]]:
    """Return the loaded model, warm on its device, with a measured batch size, and notes on it.

    The batch size is measured on the uncompiled model, see `choose_batch_size`, and halved while
    memory runs out.

    Args:
        load: Returns the model.
        options: Options of the run; its batch size is an upper limit.
        frame_size: (height, width) of the decoded frames.
        frames: Number of frames; upper limit of the batch size.
        tables: Cache of memory measurements.
        timer: Receives the durations.
        compiler: Compiles the model if the options request it.

    Raises:
        ConfigError, BackendError: see `ready_model`.
    """
    with timer.part("batch size"):
        model = load()
        uncompiled = replace(options.compute(), compile=False)
        choice = choose_batch_size(
            prepare(lambda: model, uncompiled, batch_size=1, clock=timer.clock),
            frame_size=frame_size,
            max_batch_size=min(options.batch_size, frames),
            budget_seconds=_BATCH_SIZE_SECONDS,
            clock=timer.clock,
            known=known_peaks(model, options, frame_size, tables),
        )
    fitted, batch_size, notes = halve_until_it_fits(
        lambda size: ready_model(
            lambda: model,
            options,
            batch_size=size,
            frame_size=frame_size,
            timer=timer,
            compiler=compiler,
        ),
        choice.batch_size,
    )
    return fitted, batch_size, (choice.reason, *notes)


def halve_until_it_fits(
    attempt: Callable[[int], Model[Result]], batch_size: int
) -> tuple[Model[Result], int, tuple[str, ...]]:
    """Call `attempt` with a batch size, halved while memory runs out.

    Returns:
        The model, its batch size, and a note for each batch size that did not fit.

    Raises:
        BackendError: `attempt` failed for another reason, or with batch size 1.
    """
    notes: list[str] = []
    while True:
        try:
            return attempt(batch_size), batch_size, tuple(notes)
        except BackendError as error:
            if batch_size == 1 or not is_out_of_memory(error.__cause__):
                raise
        smaller = batch_size // 2
        notes.append(
            f"memory ran out with batches of {batch_size} before the first frame; the next "
            f"attempt used {smaller}"
        )
        batch_size = smaller
        release_memory()


def run_setup(
    compute: ComputeOptions,
    model: Model[Any],
    origin: Provenance,
    *,
    stride: int = 1,
    draws_video: bool,
) -> Setup:
    """Return the settings of a run that findings use."""
    has_custom = has_custom_weights(model.name, compute.weights)
    return Setup(
        batch_size=compute.batch_size,
        stride=stride,
        device=compute.device,
        model=model.name,
        smaller_model=None if has_custom else smaller_model(model.name),
        has_own_weights=has_custom,
        parameters=model.num_parameters,
        threads=compute.threads or origin.machine.usable_cores,
        # For a model without an input size, no level is cheaper.
        prep_level=None if model.input.crop is None else compute.prep_level,
        draws_video=draws_video,
    )
