"""How much memory batches take, by size of the frames, batch size and precision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.bench.benchmark import Context
from headrace.bench.memory_config import SIZES, MemoryConfig
from headrace.bench.memory_record import (
    CellRecord,
    FrameSizeRecord,
    MemoryRecord,
    MemoryRow,
    Precision,
)
from headrace.bench.model_choice import indexes_of
from headrace.errors import BackendError, ConfigError
from headrace.sizes import parse_bytes

if TYPE_CHECKING:
    from headrace.models.memory_table import MemoryKey

_SHARE: Final = 0.25
"""Of the main memory that is free."""


def measure_memory(config: MemoryConfig, context: Context) -> MemoryRecord:
    """Run batches of growing size in processes of their own, and keep what they took.

    Raises:
        ConfigError: no such model, or its weights cannot be had.
        BackendError: the device is missing, or nothing at all can be measured.
        MediaError: a video cannot be opened.
    """
    from headrace.bench.memory_processes import measured_cells
    from headrace.models.available import check_available
    from headrace.models.compute import Compute
    from headrace.models.load import load_classifier
    from headrace.runs.device_memory import memory_key

    sizes = _sizes_of(config, context)
    check_available(Compute(device=config.device))
    precisions = _precisions_of(config)
    for precision in precisions:
        check_available(Compute(device=config.device, precision=precision))
    model = load_classifier(config.model_name, config.weights)
    key = memory_key(model, device=config.device, precision="float32", prep_level=config.prep_level)
    del model
    made = context.provenance(config, precisions=precisions)
    limit = None if config.max_memory is None else parse_bytes(config.max_memory)
    if config.device == "cpu" and limit is None:
        limit = int(_SHARE * (made.machine.available_bytes or made.machine.memory_bytes))
    cells, limit = measured_cells(config, precisions, sizes, limit, context.on_progress)
    if all(cell.status == "failed" for cell in cells):
        raise BackendError(f"no memory could be measured: {cells[0].why}")
    return MemoryRecord(
        provenance=made,
        model=config.model_name,
        device=config.device,
        device_name=key.device,
        limit_bytes=limit,
        sizes=sizes,
        cells=cells,
        not_kept=_keep(key, sizes, cells, made.created.date().isoformat(), context),
    )


def rows_of(record: MemoryRecord) -> tuple[MemoryRow, ...]:
    """Return a row for each precision and batch size, in the order they were asked for."""
    kinds = dict.fromkeys((cell.precision, cell.batch_size) for cell in record.cells)
    return tuple(
        MemoryRow(
            precision=precision,
            batch_size=batch_size,
            cells=tuple(
                cell
                for size in record.sizes
                for cell in record.cells
                if (cell.size, cell.precision, cell.batch_size)
                == (size.name, precision, batch_size)
            ),
            limit_bytes=record.limit_bytes,
            on_gpu=record.device == "cuda",
        )
        for precision, batch_size in kinds
    )


def _sizes_of(config: MemoryConfig, context: Context) -> tuple[FrameSizeRecord, ...]:
    """Return the sizes that were asked for, and that of the largest video, by their area."""
    chosen = {SIZES[name]: str(name) for name in config.sizes}
    indexes = indexes_of(config.videos, context.store)
    if indexes:
        sizes = [index.info.upright_size for index in indexes]
        height, width = max(sizes, key=lambda size: size[0] * size[1])
        names = {size: name for name, size in SIZES.items()}
        chosen.setdefault((height, width), names.get((height, width), f"{height}x{width}"))
    ordered = sorted(chosen, key=lambda size: (size[0] * size[1], size))
    return tuple(FrameSizeRecord(name=chosen[h, w], height=h, width=w) for h, w in ordered)


def _precisions_of(config: MemoryConfig) -> tuple[Precision, ...]:
    import torch

    chosen: list[Precision] = []
    for name in config.precisions:
        if name != "auto":
            chosen.append(name)
        elif config.device == "cpu":
            # float16 is emulated on most processors.
            chosen += ["float32", "bfloat16"]
        else:
            chosen += ["float32", "float16"]
            if torch.cuda.is_bf16_supported():
                chosen.append("bfloat16")
    return tuple(dict.fromkeys(chosen))


def _keep(
    key: "MemoryKey",
    sizes: Sequence[FrameSizeRecord],
    cells: Sequence[CellRecord],
    today: str,
    context: Context,
) -> str | None:
    """Keep what was measured where `--batch-size auto` looks for it; return why it cannot be."""
    from headrace.models.memory_table import MemoryCell, MemoryTables

    if not any(cell.peak_bytes for cell in cells):
        return "no batch was measured"
    tables = MemoryTables.beside(context.store)
    by_name = {size.name: (size.height, size.width) for size in sizes}
    for precision in dict.fromkeys(cell.precision for cell in cells):
        measured = [
            MemoryCell(
                size=by_name[cell.size],
                batch_size=cell.batch_size,
                peak_bytes=cell.peak_bytes,
                model_bytes=cell.model_bytes,
            )
            for cell in cells
            if cell.precision == precision and cell.peak_bytes is not None
        ]
        try:
            if measured:
                tables.keep(replace(key, precision=precision), measured, today)
        except ConfigError as error:
            return str(error)
    return None
