"""What a process of `bench memory` does: batches that grow, and the peak of memory of each."""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import psutil
import torch

from headrace.errors import BackendError
from headrace.models.compute import Compute
from headrace.models.load import load_classifier
from headrace.models.memory_peaks import predicted_peak
from headrace.models.model import Model
from headrace.models.out_of_memory import is_out_of_memory, release_memory
from headrace.models.precision import Device
from headrace.models.prepare import prepare
from headrace.models.threads import operation_threads
from headrace.models.transfer import transfer
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.usage import forget_peak, peak_memory_bytes
from headrace.runtime.child import Json

_GPU_SHARE = 0.9
"""Of a GPU's memory that is free, as `--batch-size auto` takes it."""


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The most memory that was held while something ran."""

    bytes: int
    """Reserved on the GPU; of the whole process in main memory."""
    allocated_bytes: int | None = None
    """By tensors, on the GPU."""


class Meter(Protocol):
    """Measures peaks."""

    def begin(self) -> None:
        """Give back what is free; peaks count from now on."""
        ...

    def peak(self) -> Peak:
        """Return the peak since then."""
        ...


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
        meter = _meter(compute.device)
        meter.begin()
        base, limit = _start(compute.device, given["limit_bytes"])
        send({"base_bytes": base, "limit_bytes": limit})
        for size in given["sizes"]:
            chain = _Chain(model, preprocess, meter, (size[0], size[1]))
            for found in climb(given["batch_sizes"], chain.peaks, base_bytes=base, limit=limit):
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


class _Chain:
    """Frames of one size, preprocessed and seen by the model; all of it on one device."""

    def __init__(
        self, model: Model[Any], preprocess: Preprocess, meter: Meter, size: tuple[int, int]
    ) -> None:
        self._model = model
        self._preprocess = preprocess
        self._meter = meter
        self._size = size

    def peaks(self, batch_size: int) -> dict[str, Json] | None:
        """Return what a batch took; None where memory ran out."""
        try:
            return self._peaks(batch_size)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        release_memory()
        return None

    def _peaks(self, batch_size: int) -> dict[str, Json]:
        found: dict[str, Json] = {}
        device = self._model.compute.device
        if device == "cuda":
            self._meter.begin()
            shape = self._model.input.shape(batch_size, self._size)
            self._model.run(torch.zeros(shape, device=device))
            found["model_bytes"] = self._meter.peak().bytes
        self._meter.begin()
        # Filled, as memory that nobody wrote to is none.
        frames = np.full((batch_size, *self._size, 3), 127, np.uint8)
        there = transfer(frames, device).tensor
        self._model.run(self._preprocess(there))
        peak = self._meter.peak()
        return found | {"peak_bytes": peak.bytes, "allocated_bytes": peak.allocated_bytes}


class _MainMemory:
    def begin(self) -> None:
        gc.collect()
        forget_peak()

    def peak(self) -> Peak:
        found = peak_memory_bytes()
        if found is None:
            raise BackendError(
                "the peak memory of a process was asked for, and this system does not tell it; "
                "use Linux, or --device cuda"
            )
        return Peak(bytes=found)


class _GpuMemory:
    def begin(self) -> None:
        release_memory()
        torch.cuda.reset_peak_memory_stats()

    def peak(self) -> Peak:
        torch.cuda.synchronize()
        return Peak(
            bytes=torch.cuda.max_memory_reserved(),
            allocated_bytes=torch.cuda.max_memory_allocated(),
        )


def _meter(device: Device) -> Meter:
    return _MainMemory() if device == "cpu" else _GpuMemory()


def _start(device: Device, limit: int | None) -> tuple[int, int]:
    """Return what is held before the first batch, and what all may take; bytes."""
    if device == "cpu":
        assert limit is not None
        return int(psutil.Process().memory_info().rss), limit
    base, (free, _) = int(torch.cuda.memory_reserved()), torch.cuda.mem_get_info()
    return base, limit or base + int(_GPU_SHARE * free)
