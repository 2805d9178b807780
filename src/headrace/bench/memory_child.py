"""Child process of `bench memory`: batches of growing size and their peak memory."""

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import psutil
import torch

from headrace.errors import BackendError
from headrace.models.compute import Compute, Device
from headrace.models.device import is_out_of_memory, operation_threads, release_memory, transfer
from headrace.models.load import load_classifier
from headrace.models.memory_table import predicted_peak
from headrace.models.model import Model, prepare
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.resource_usage import forget_peak, peak_memory_bytes
from headrace.runtime.child_process import Json

_GPU_SHARE = 0.9
"""Share of free GPU memory that is used, as for `--batch-size auto`."""


def measure_row(argument: Json, send: Callable[[Json], None]) -> Json:
    """Measure batches of one precision for some frame sizes; statuses as in `memory.py`.

    Every start and every result is sent at once, so a killed process loses at most one batch.

    Raises:
        BackendError: the model cannot run in this precision, or the system reports no peak
            memory.
    """
    options = cast("dict[str, Any]", argument)
    compute = Compute(device=options["device"], precision=options["precision"])
    with operation_threads(options["threads"]):
        model = prepare(
            lambda: load_classifier(options["model_name"], options["weights"]),
            compute,
            batch_size=1,
        )
        preprocess = build_preprocess(options["prep_level"], model.input)
        _reset_peak(compute.device)
        base, limit = _start(compute.device, options["limit_bytes"])
        send({"base_bytes": base, "limit_bytes": limit})
        for size in options["sizes"]:
            peaks = partial(_peaks, model, preprocess, size)
            for row in climb(options["batch_sizes"], peaks, base_bytes=base, limit=limit):
                send({"size": size, **row})
    return None


def climb(
    batch_sizes: Sequence[int],
    peaks: Callable[[int], dict[str, Json] | None],
    *,
    base_bytes: int,
    limit: int,
) -> Iterator[dict[str, Json]]:
    """Yield the result of each batch size, ascending, and a message before each run.

    Batches predicted above `limit` are not run. A batch of one frame runs first, because
    predictions need its peak.

    Args:
        batch_sizes: Frames in a batch.
        peaks: Runs a batch and returns its figures, with "peak_bytes"; None: out of memory.
        base_bytes: Bytes in use before the first batch.
        limit: Max bytes.
    """
    known, is_full = {0: base_bytes}, False
    for batch_size in sorted({1, *batch_sizes}):
        is_wanted = batch_size in batch_sizes
        predicted = predicted_peak(known, batch_size) if len(known) > 1 else base_bytes
        row: dict[str, Json] = {"batch_size": batch_size, "status": "out_of_memory"}
        if predicted > limit:
            row |= {"status": "over_limit", "predicted_bytes": predicted}
        elif not is_full:
            if is_wanted:
                yield {"batch_size": batch_size, "status": "begun"}
            figures = peaks(batch_size)
            is_full = figures is None
            if figures is not None:
                known[batch_size] = cast("int", figures["peak_bytes"])
                row |= {"status": "measured", **figures}
        if is_wanted:
            yield row


def _peaks(
    model: Model[Any], preprocess: Preprocess, size: Sequence[int], batch_size: int
) -> dict[str, Json] | None:
    """Return the peaks of one batch, preprocessed and run by the model on one device.

    None: out of memory.
    """
    try:
        return _run_batch(model, preprocess, size, batch_size)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    release_memory()
    return None


def _run_batch(
    model: Model[Any], preprocess: Preprocess, size: Sequence[int], batch_size: int
) -> dict[str, Json]:
    device, row = model.compute.device, dict[str, Json]()
    if device == "cuda":
        _reset_peak(device)
        shape = model.input.shape(batch_size, (size[0], size[1]))
        model.run(torch.zeros(shape, device=device))
        row["model_bytes"], _ = _peak(device)
    _reset_peak(device)
    # Filled, because untouched pages use no memory.
    frames = np.full((batch_size, *size, 3), 127, np.uint8)
    on_device = transfer(frames, device)
    model.run(preprocess(on_device))
    row["peak_bytes"], row["allocated_bytes"] = _peak(device)
    return row


def _reset_peak(device: Device) -> None:
    """Free unused memory and reset the peak."""
    if device == "cpu":
        gc.collect()
        forget_peak()
    else:
        release_memory()
        torch.cuda.reset_peak_memory_stats()


def _peak(device: Device) -> tuple[int, int | None]:
    """Return the peak since the reset: bytes reserved on the GPU, and bytes allocated by tensors.

    For main memory: the peak of the whole process, and None.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    peak_bytes = peak_memory_bytes()
    if peak_bytes is None:
        raise BackendError(
            "this system does not report the peak memory of a process; use Linux, or --device cuda"
        )
    return peak_bytes, None


def _start(device: Device, limit: int | None) -> tuple[int, int]:
    """Return the memory before the first batch, and the limit; bytes."""
    if device == "cpu":
        assert limit is not None
        return int(psutil.Process().memory_info().rss), limit
    base, (free, _) = int(torch.cuda.memory_reserved()), torch.cuda.mem_get_info()
    return base, limit or base + int(_GPU_SHARE * free)
