"""The model of a run, made ready before its first frame."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic

from headrace.errors import BackendError
from headrace.models.batch_size import BatchChoice, choose_batch_size
from headrace.models.compute import Compute
from headrace.models.gpu_memory import is_out_of_memory, release_memory
from headrace.models.memory_table import MemoryTables
from headrace.models.model import Model, Result
from headrace.models.precision_support import check_available, emulation
from headrace.models.prepare import Compiler, compile_module, prepare
from headrace.runs.device_memory import known_peaks
from headrace.runs.options import ComputeOptions
from headrace.runs.start import StartWatch
from headrace.runtime.clock import Clock

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
    clock: Clock,
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
        clock=clock,
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
class Fitted(Generic[Result]):
    """A model that is ready for batches of a size that fits."""

    model: Model[Result]
    batch_size: int
    notes: tuple[str, ...]
    """A sentence for each size that did not fit."""


def backing_off(attempt: Callable[[int], Model[Result]], batch_size: int) -> Fitted[Result]:
    """Return what `attempt` makes of a batch size, halved as often as memory runs out.

    Raises:
        BackendError: as `attempt`, for another reason or for a single frame.
    """
    notes: list[str] = []
    while True:
        try:
            return Fitted(model=attempt(batch_size), batch_size=batch_size, notes=tuple(notes))
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
