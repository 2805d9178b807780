"""The model of a run, made ready before its first frame."""

from collections.abc import Callable

from headrace.models.compute import Compute
from headrace.models.model import Model, Result
from headrace.models.prepare import prepare
from headrace.models.threads import operation_threads
from headrace.runs.options import ComputeOptions
from headrace.runs.start import StartWatch
from headrace.runtime.clock import Clock


def ready_model(
    load: Callable[[], Model[Result]],
    options: ComputeOptions,
    *,
    batch_size: int,
    watch: StartWatch,
    clock: Clock,
) -> Model[Result]:
    """Return the model that `load` gives, on its device and warm; `watch` hears what that took.

    Raises:
        ConfigError: as `load`.
        BackendError: the device is missing, or the model cannot run there with such batches.
    """
    with operation_threads(options.threads):
        ready = prepare(load, Compute(device=options.device), batch_size=batch_size, clock=clock)
    watch.add("model", ready.startup.load_seconds)
    if ready.startup.compile_seconds:
        watch.add("compile", ready.startup.compile_seconds)
    watch.add("warm-up", ready.startup.warmup_seconds)
    return ready.model
