"""Child processes of `bench memory`, one at a time, and their peaks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from math import prod
from typing import Any, Final, cast

from headrace.bench.benchmark import Context
from headrace.bench.config import indexes_of, usual_precisions
from headrace.bench.memory import ROW_SECONDS, CellRecord, MemoryConfig, MemoryRecord, SizeRecord
from headrace.bench.memory_child import measure_row
from headrace.errors import BackendError, ConfigError, in_one_line
from headrace.measuring.interleaved import OnProgress, grouped
from headrace.models.compute import Compute, Precision
from headrace.models.device import check_available
from headrace.models.load import load_classifier
from headrace.models.memory_table import MemoryCell, MemoryKey, MemoryTables
from headrace.runs.model_setup import memory_key
from headrace.runtime.child_process import KILLED, CompletedChild, FunctionSpec, Json
from headrace.runtime.supervisor import run_children
from headrace.units import parse_bytes

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


def measure_memory(config: MemoryConfig, context: Context) -> MemoryRecord:
    """Run batches of growing size in child processes; store their peaks.

    Raises:
        ConfigError: the model is unknown, or its weights are not available.
        BackendError: the device is missing, or no batch can be measured.
        MediaError: a video cannot be opened.
    """
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


def _sizes_of(config: MemoryConfig, context: Context) -> tuple[SizeRecord, ...]:
    """Return the requested frame sizes and the largest video's size, by area."""
    names = {size: name for name, size in SIZES.items()}
    sizes = {SIZES[name] for name in config.sizes}
    if indexes := indexes_of(config.videos, context.store):
        sizes.add(max((index.info.upright_size for index in indexes), key=prod))
    return tuple(
        SizeRecord(name=names.get((h, w), f"{h}x{w}"), height=h, width=w)
        for h, w in sorted(sizes, key=lambda size: (prod(size), size))
    )


def _precisions_of(config: MemoryConfig) -> tuple[Precision, ...]:
    usual = usual_precisions(config.device) if "auto" in config.precisions else ()
    precisions = [usual if name == "auto" else (name,) for name in config.precisions]
    return tuple(dict.fromkeys(chain(*precisions)))


def _keep(
    key: MemoryKey,
    sizes: Sequence[SizeRecord],
    cells: Sequence[CellRecord],
    today: str,
    context: Context,
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
    config: MemoryConfig,
    precisions: Sequence[Precision],
    sizes: tuple[SizeRecord, ...],
    limit: int | None,
    on_progress: OnProgress,
) -> tuple[tuple[CellRecord, ...], int]:
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
    limits = [
        message["limit_bytes"]
        for ending in endings
        for message in cast("tuple[dict[str, Any], ...]", ending.messages)
        if "limit_bytes" in message
    ]
    cells = [
        cell
        for (precision, job_sizes), ending in zip(jobs, endings, strict=True)
        for cell in _cells(config, precision, job_sizes, ending)
    ]
    return tuple(cells), limit or min(limits, default=1)


def process_name(precision: Precision, sizes: Sequence[SizeRecord]) -> str:
    """`float32, 720p`."""
    return ", ".join([precision, *(size.name for size in sizes)])


def _cells(
    config: MemoryConfig,
    precision: Precision,
    sizes: Sequence[SizeRecord],
    ending: CompletedChild,
) -> Iterator[CellRecord]:
    """Yield one record per batch of a process, including unreached batches."""
    messages = cast("tuple[dict[str, Any], ...]", ending.messages)
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
