"""What is known of the memory that a model takes on this machine."""

from typing import Any

from headrace.models.compute import Device, Precision
from headrace.models.memory_table import KnownPeaks, MemoryKey, MemoryTables
from headrace.models.model import Model
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.machine import describe_machine, versions
from headrace.runs.options import ComputeOptions


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
