"""What a process of `bench memory` does: batches that grow, and the peak of memory of each."""

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import psutil
import torch

from headrace.errors import BackendError
from headrace.models.compute import Compute, Device
from headrace.models.gpu_memory import is_out_of_memory, release_memory
from headrace.models.load import load_classifier
from headrace.models.memory_table import predicted_peak
from headrace.models.model import Model
from headrace.models.precision_support import operation_threads
from headrace.models.prepare import prepare
from headrace.models.transfer import transfer
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.resource_usage import forget_peak, peak_memory_bytes
from headrace.runtime.child_spec import Json

_GPU_SHARE = 0.9
"""Of a GPU's memory that is free, as `--batch-size auto` takes it."""


def measure_row(argument: Json, send: Callable[[Json], None]) -> Json:
    """Measure batches of one precision, for some sizes of frames: see `memory.py` for the words.

    Sends what it begins and what came of it, one after the other, so that what kills this process
    costs no more than the batch it happened in.

    Raises:
        BackendError: the model cannot run here in this precision, not even on one frame; or the
            system does not tell what was asked for.
    """
    given = cast("dict[str, Any]", argument)
    compute = Compute(device=given["device"], precision=given["precision"])
    with operation_threads(given["threads"]):
        model = prepare(
            lambda: load_classifier(given["model_name"], given["weights"]), compute, batch_size=1
        ).model
        preprocess = build_preprocess(given["prep_level"], model.input)
        _begin(compute.device)
        base, limit = _start(compute.device, given["limit_bytes"])
        send({"base_bytes": base, "limit_bytes": limit})
        for size in given["sizes"]:
            peaks = partial(_peaks, model, preprocess, size)
            for found in climb(given["batch_sizes"], peaks, base_bytes=base, limit=limit):
                send({"size": size, **found})
    return None


def climb(
    batch_sizes: Sequence[int],
    peaks: Callable[[int], dict[str, Json] | None],
    *,
    base_bytes: int,
    limit: int,
) -> Iterator[dict[str, Json]]:
    """Yield what came of each batch size, ascending; before it is run, that it is begun.

    None is run that by those before it would take more than `limit`. One frame goes first, whether
    it was asked for or not, since its peak tells that of the others.

    Args:
        batch_sizes: Frames in a batch.
        peaks: Runs a batch and returns what it took, with "peak_bytes"; None where memory ran out.
        base_bytes: Held before the first batch.
        limit: Bytes.
    """
    known, is_full = {0: base_bytes}, False
    for batch_size in sorted({1, *batch_sizes}):
        is_wanted = batch_size in batch_sizes
        predicted = predicted_peak(known, batch_size) if len(known) > 1 else base_bytes
        found: dict[str, Json] = {"batch_size": batch_size, "status": "out_of_memory"}
        if predicted > limit:
            found |= {"status": "over_limit", "predicted_bytes": predicted}
        elif not is_full:
            if is_wanted:
                yield {"batch_size": batch_size, "status": "begun"}
            taken = peaks(batch_size)
            is_full = taken is None
            if taken is not None:
                known[batch_size] = cast("int", taken["peak_bytes"])
                found |= {"status": "measured", **taken}
        if is_wanted:
            yield found


def _peaks(
    model: Model[Any], preprocess: Preprocess, size: Sequence[int], batch_size: int
) -> dict[str, Json] | None:
    """Return what a batch took of frames of one size, preprocessed and seen by the model.

    All of it on one device; None where memory ran out.
    """
    try:
        return _taken(model, preprocess, size, batch_size)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    release_memory()
    return None


def _taken(
    model: Model[Any], preprocess: Preprocess, size: Sequence[int], batch_size: int
) -> dict[str, Json]:
    device, found = model.compute.device, dict[str, Json]()
    if device == "cuda":
        _begin(device)
        shape = model.input.shape(batch_size, (size[0], size[1]))
        model.run(torch.zeros(shape, device=device))
        found["model_bytes"], _ = _peak(device)
    _begin(device)
    # Filled, as memory that nobody wrote to is none.
    frames = np.full((batch_size, *size, 3), 127, np.uint8)
    there = transfer(frames, device).tensor
    model.run(preprocess(there))
    found["peak_bytes"], found["allocated_bytes"] = _peak(device)
    return found


def _begin(device: Device) -> None:
    """Give back what is free; peaks count from now on."""
    if device == "cpu":
        gc.collect()
        forget_peak()
    else:
        release_memory()
        torch.cuda.reset_peak_memory_stats()


def _peak(device: Device) -> tuple[int, int | None]:
    """Return the most memory since then: reserved on the GPU, and of that allocated by tensors.

    In main memory it is that of the whole process, and there is no other figure.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    found = peak_memory_bytes()
    if found is None:
        raise BackendError(
            "the peak memory of a process was asked for, and this system does not tell it; "
            "use Linux, or --device cuda"
        )
    return found, None


def _start(device: Device, limit: int | None) -> tuple[int, int]:
    """Return what is held before the first batch, and what all may take; bytes."""
    if device == "cpu":
        assert limit is not None
        return int(psutil.Process().memory_info().rss), limit
    base, (free, _) = int(torch.cuda.memory_reserved()), torch.cuda.mem_get_info()
    return base, limit or base + int(_GPU_SHARE * free)
