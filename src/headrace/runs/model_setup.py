"""Model of a run, loaded and warm before the first frame, on the cores it computes with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Generic

from headrace.errors import BackendError
from headrace.models.batch_size import BatchChoice, choose_batch_size
from headrace.models.catalogue import smaller_model
from headrace.models.compute import Compute, Device, Precision
from headrace.models.gpu_memory import is_out_of_memory, release_memory
from headrace.models.memory_table import KnownPeaks, MemoryKey, MemoryTables
from headrace.models.model import Model, Result
from headrace.models.precision_support import check_available, emulation, operation_threads
from headrace.models.prepare import Compiler, compile_module, prepare
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.machine import describe_machine, versions
from headrace.profiling.provenance import Provenance
from headrace.profiling.run_records import Setup, StartUpPart
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.affinity import bound_to_cores, parse_cores
from headrace.runtime.clock import Clock


class StartWatch:
    """Times what is done before the first frame, part by part."""

    def __init__(self, clock: Clock, imports_seconds: float | None = None) -> None:
        """Nothing is timed yet but what the program took to get here, if that is known."""
        self.clock = clock
        self.parts: list[StartUpPart] = []
        """In the order they were done."""
        if imports_seconds is not None:
            self.add("imports", imports_seconds)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside, and call it `name`."""
        began_ns = self.clock.now_ns()
        yield
        self.add(name, (self.clock.now_ns() - began_ns) / 1e9)

    def add(self, name: str, seconds: float) -> None:
        """Note a part that was timed elsewhere."""
        self.parts.append(StartUpPart(name=name, seconds=max(0.0, seconds)))


@contextmanager
def computing_place(options: ComputeOptions) -> Iterator[None]:
    """Run inside on the cores, and with the threads of one operation, that were asked for.

    Cores that are bound get as many threads as they are, unless another number was asked for. Both
    are the process's: two of these must not overlap in different threads.

    Raises:
        ConfigError: there are no such cores; the message says which there are.
        BackendError: this system cannot bind a process to cores.
    """
    cores = options.execution.core_bind
    chosen = None if cores is None else parse_cores(cores)
    threads = options.threads or (None if chosen is None else len(chosen))
    with bound_to_cores(chosen), operation_threads(threads):
        yield


def memory_key(
    model: Model[Any], *, device: Device, precision: Precision, prep_level: PrepLevel
) -> MemoryKey:
    """Return what figures of this model's memory depend on, on this machine as it is now."""
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
    picture_size: tuple[int, int],
    tables: MemoryTables,
) -> KnownPeaks | None:
    """Return what batches of a run took when they were measured; None where that is not known.

    Of a model that is split, or lies with the channels last in memory, nothing is.
    """
    compute = options.compute()
    if compute.split_layer is not None or compute.channels_last:
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
    return table.of_frames(picture_size)


_TRIAL_SECONDS: Final = 10.0
"""That may be spent on finding the best batch size."""


def check_devices(options: ComputeOptions) -> None:
    """Raise where options do not go together, or ask for a device that is not there.

    Raises:
        ConfigError, BackendError: as `ready_model`; nothing is loaded for it.
    """
    check_available(options.compute())
    if options.execution.prep_on_gpu:
        check_available(Compute(device="cuda"), asked="preprocessing on the GPU (--prep-on-gpu)")


def notes_on(options: ComputeOptions) -> tuple[str, ...]:
    """Return what a user should know of what was asked for, a sentence each."""
    emulated = emulation(options.compute())
    return () if emulated is None else (emulated,)


def ready_model(
    load: Callable[[], Model[Result]],
    options: ComputeOptions,
    *,
    batch_size: int,
    picture_size: tuple[int, int] = (480, 640),
    watch: StartWatch,
    compiler: Compiler = compile_module,
) -> Model[Result]:
    """Return the model that `load` gives, on its device and warm; `watch` hears what that took.

    `picture_size` is the (height, width) of the frames, for models that take them as they are.

    Raises:
        ConfigError: as `load`; or options that do not go together.
        BackendError: the device is missing, or the model cannot run there with such batches.
    """
    ready = prepare(
        load,
        options.compute(),
        batch_size=batch_size,
        picture_size=picture_size,
        clock=watch.clock,
        compiler=compiler,
    )
    watch.add("model", ready.startup.load_seconds)
    if ready.startup.compile_seconds:
        watch.add("compile", ready.startup.compile_seconds)
    watch.add("warm-up", ready.startup.warmup_seconds)
    return ready.model


def fitted_batch(
    model: Model[Result],
    options: ComputeOptions,
    *,
    picture_size: tuple[int, int],
    frames: int,
    tables: MemoryTables,
    clock: Clock,
) -> BatchChoice:
    """Return the batch size for a model that is loaded: see `choose_batch_size`.

    It is measured as it will run, but not compiled.

    Args:
        model: Is taken to its device.
        options: How it will run.
        picture_size: (height, width) of the decoded frames.
        frames: That there are.
        tables: Where what was measured before is kept.
        clock: What measures.

    Raises:
        ConfigError, BackendError: as `ready_model`.
    """
    plain = replace(options.compute(), compile=False)
    return choose_batch_size(
        prepare(lambda: model, plain, batch_size=1, clock=clock).model,
        picture_size=picture_size,
        most=min(options.batch_size, frames),
        budget_seconds=_TRIAL_SECONDS,
        clock=clock,
        known=known_peaks(model, options, picture_size, tables),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadyModel(Generic[Result]):
    """A model that is ready for batches of a size that fits."""

    model: Model[Result]
    batch_size: int
    notes: tuple[str, ...]
    """A sentence for each size that did not fit."""


def backing_off(attempt: Callable[[int], Model[Result]], batch_size: int) -> ReadyModel[Result]:
    """Return what `attempt` makes of a batch size, halved as often as memory runs out.

    Raises:
        BackendError: as `attempt`, for another reason or for a single frame.
    """
    notes: list[str] = []
    while True:
        try:
            return ReadyModel(model=attempt(batch_size), batch_size=batch_size, notes=tuple(notes))
        except BackendError as error:
            if batch_size == 1 or not is_out_of_memory(error.__cause__):
                raise
        smaller = batch_size // 2
        notes.append(
            f"memory ran out with batches of {batch_size} before the first frame: {smaller} were "
            "tried instead"
        )
        batch_size = smaller
        release_memory()


def setup_of(
    compute: ComputeOptions,
    model: Model[Any],
    made: Provenance,
    *,
    stride: int = 1,
    draws_video: bool,
) -> Setup:
    """Return what set the pace of a run, as findings reason about it."""
    return Setup(
        batch_size=compute.batch_size,
        stride=stride,
        device=compute.device,
        model=model.name,
        smaller_model=smaller_model(model.name),
        parameters=model.num_parameters,
        threads=compute.threads or made.machine.usable_cores,
        # A model that takes pictures as they are resizes by itself: no level is lighter.
        prep_level=None if model.input.crop is None else compute.prep_level,
        draws_video=draws_video,
    )
