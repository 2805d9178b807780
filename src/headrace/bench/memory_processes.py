"""Child processes of `bench memory`, one at a time, and the peaks of batches in each.

A child imports this module, so modules that draw are imported by the parent's functions.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import psutil
import torch

from headrace.bench.config import indexes_of, usual_precisions
from headrace.errors import BackendError, ConfigError, in_one_line
from headrace.measuring.interleaved import OnProgress, grouped
from headrace.models.compute import Compute, Device, Precision
from headrace.models.device import (
    check_available,
    is_out_of_memory,
    operation_threads,
    release_memory,
    transfer,
)
from headrace.models.load import load_classifier
from headrace.models.memory_table import MemoryCell, MemoryKey, MemoryTables, predicted_peak
from headrace.models.model import Model, prepare
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.resource_usage import forget_peak, peak_memory_bytes
from headrace.runs.model_setup import memory_key
from headrace.runtime.child_process import KILLED, CompletedChild, FunctionSpec, Json
from headrace.runtime.supervisor import run_children
from headrace.units import parse_bytes

if TYPE_CHECKING:
    from headrace.bench.benchmark import Context
    from headrace.bench.memory import CellRecord, MemoryConfig, MemoryRecord, SizeRecord

SIZES: Final[dict[str, tuple[int, int]]] = {
    "360p": (360, 640),
    "720p": (720, 1280),
    "1080p": (1080, 1920),
    "4K": (2160, 3840),
}
"""(height, width)."""
_SHARE: Final = 0.25
"""Default share of free main memory to use."""
_SHARED_OPTIONS: Final = ("model_name", "weights", "device", "prep_level", "threads")
"""Options passed to each process."""
_GPU_SHARE: Final = 0.9
"""Share of free GPU memory that is used, as for `--batch-size auto`."""


def measure_memory(config: "MemoryConfig", context: "Context") -> "MemoryRecord":
    """Run batches of growing size in child processes; store their peaks.

    Raises:
        ConfigError: the model is unknown, or its weights are not available.
        BackendError: the device is missing, or no batch can be measured.
        MediaError: a video cannot be opened.
    """
    from headrace.bench.memory import MemoryRecord

    sizes = _sizes_of(config, context)
    check_available(Compute(device=config.device))
    precisions = _precisions_of(config)
    for precision in precisions:
        check_available(Compute(device=config.device, precision=precision))
    model = load_classifier(config.model_name, config.weights)
    key = memory_key(model, device=config.device, precision="float32", prep_level=config.prep_level)
    del model
    provenance = context.provenance(config, precisions=precisions)
    limit = None if config.max_memory is None else parse_bytes(config.max_memory)
    if config.device == "cpu" and limit is None:
        limit = int(
            _SHARE * (provenance.machine.available_bytes or provenance.machine.memory_bytes)
        )
    cells, limit = measured_cells(config, precisions, sizes, limit, context.on_progress)
    if all(cell.status == "failed" for cell in cells):
        raise BackendError(f"no memory could be measured: {cells[0].why}")
    return MemoryRecord(
        provenance=provenance,
        model=config.model_name,
        device=config.device,
        device_name=key.device,
        limit_bytes=limit,
        sizes=sizes,
        cells=cells,
        not_kept=_keep(key, sizes, cells, provenance.created.date().isoformat(), context),
    )


def _sizes_of(config: "MemoryConfig", context: "Context") -> "tuple[SizeRecord, ...]":
    """Return the requested frame sizes and the largest video's size, by area."""
    from headrace.bench.memory import SizeRecord

    names = {size: name for name, size in SIZES.items()}
    sizes = {SIZES[name] for name in config.sizes}
    if indexes := indexes_of(config.videos, context.store):
        sizes.add(max((index.info.upright_size for index in indexes), key=prod))
    return tuple(
        SizeRecord(name=names.get((h, w), f"{h}x{w}"), height=h, width=w)
        for h, w in sorted(sizes, key=lambda size: (prod(size), size))
    )


def _precisions_of(config: "MemoryConfig") -> tuple[Precision, ...]:
    usual = usual_precisions(config.device) if "auto" in config.precisions else ()
    precisions = [usual if name == "auto" else (name,) for name in config.precisions]
    return tuple(dict.fromkeys(chain(*precisions)))


def _keep(
    key: MemoryKey,
    sizes: "Sequence[SizeRecord]",
    cells: "Sequence[CellRecord]",
    today: str,
    context: "Context",
) -> str | None:
    """Store peaks for `--batch-size auto`; return the reason they cannot be stored."""
    if not any(cell.peak_bytes for cell in cells):
        return "no batch was measured"
    tables = MemoryTables.beside(context.store)
    by_name = {size.name: (size.height, size.width) for size in sizes}
    for precision, group in grouped(cells, lambda cell: cell.precision).items():
        measured = [
            MemoryCell(
                size=by_name[cell.size],
                batch_size=cell.batch_size,
                peak_bytes=cell.peak_bytes,
                model_bytes=cell.model_bytes,
            )
            for cell in group
            if cell.peak_bytes is not None
        ]
        try:
            if measured:
                tables.keep(replace(key, precision=precision), measured, today)
        except ConfigError as error:
            return str(error)
    return None


def measured_cells(
    config: "MemoryConfig",
    precisions: Sequence[Precision],
    sizes: "tuple[SizeRecord, ...]",
    limit: int | None,
    on_progress: OnProgress,
) -> "tuple[tuple[CellRecord, ...], int]":
    """Return the peak of every batch, and the limit in bytes.

    Processes run one at a time. For main memory, each process measures one row, because its peak
    covers its whole life. On a GPU, PyTorch can reset its peak, so one process measures all sizes.

    Args:
        config: Options of the benchmark.
        precisions: Precisions, in order.
        sizes: Frame sizes, ascending.
        limit: Max bytes; None, on a GPU: the process reads the free memory.
        on_progress: Called at the start of each batch.
    """
    from headrace.bench.memory import ROW_SECONDS

    sizes_by_process = [(size,) for size in sizes] if config.device == "cpu" else [sizes]
    jobs = list(product(precisions, sizes_by_process))
    total, done = len(precisions) * len(sizes) * len(config.batch_sizes), 0

    def on_message(name: str, message: Json) -> None:
        nonlocal done
        event = cast("dict[str, Any]", message)
        if event.get("status") == "begun":
            on_progress(f"{name}, batches of {event['batch_size']}", done, total)
        elif "status" in event:
            done += 1

    calls = [
        FunctionSpec(
            name=process_name(precision, job_sizes),
            function=measure_row,
            argument={
                **{name: getattr(config, name) for name in _SHARED_OPTIONS},
                "precision": precision,
                "sizes": [[size.height, size.width] for size in job_sizes],
                "batch_sizes": [*sorted(config.batch_sizes)],
                "limit_bytes": limit,
            },
            timeout_seconds=ROW_SECONDS * len(job_sizes),
        )
        for precision, job_sizes in jobs
    ]
    endings = run_children(calls, max_running=1, on_message=on_message)
    messages = chain(*(_messages(ending) for ending in endings))
    limits = [message["limit_bytes"] for message in messages if "limit_bytes" in message]
    cells = [
        cell
        for (precision, job_sizes), ending in zip(jobs, endings, strict=True)
        for cell in _cells(config, precision, job_sizes, ending)
    ]
    return tuple(cells), limit or min(limits, default=1)


def _messages(ending: CompletedChild) -> tuple[dict[str, Any], ...]:
    return cast("tuple[dict[str, Any], ...]", ending.messages)


def process_name(precision: Precision, sizes: "Sequence[SizeRecord]") -> str:
    """`float32, 720p`."""
    return ", ".join([precision, *(size.name for size in sizes)])


def _cells(
    config: "MemoryConfig",
    precision: Precision,
    sizes: "Sequence[SizeRecord]",
    ending: CompletedChild,
) -> "Iterator[CellRecord]":
    """Yield one record per batch of a process, including unreached batches."""
    from headrace.bench.memory import CellRecord

    messages = _messages(ending)
    base = next((message["base_bytes"] for message in messages if "base_bytes" in message), None)
    results = {
        (*message["size"], message["batch_size"]): message
        for message in messages
        if "status" in message
    }
    # A process killed before its first batch does not prove that a batch is too large.
    is_killed = ending.exit_code == KILLED and not ending.has_timed_out and bool(results)
    # The reason, without the exception class.
    why = in_one_line((ending.error or "").partition(": ")[2]) or ending.error or ending.describe()
    lost = {"status": "out_of_memory"} if is_killed else {"status": "failed", "why": why}
    for size, batch_size in product(sizes, sorted(config.batch_sizes)):
        result = results.get((size.height, size.width, batch_size), lost)
        known = {"precision": precision, "batch_size": batch_size, "base_bytes": base}
        known |= lost if result["status"] == "begun" else result
        yield CellRecord.model_validate(known | {"size": size.name})


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
