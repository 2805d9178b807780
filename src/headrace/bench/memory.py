"""Memory benchmark: peak memory of batches by frame size, batch size and precision."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Annotated, Any, Final, Literal, cast

from pydantic import NonNegativeInt, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.config import ModelName, ThreadedModelConfig, indexes_of, usual_precisions
from headrace.config_fields import Option, VideoArgument
from headrace.errors import BackendError, ConfigError, in_one_line
from headrace.measuring.interleaved import OnProgress, grouped
from headrace.models.compute import Precision
from headrace.models.memory_table import MemoryCell, MemoryKey, MemoryTables
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.provenance import Record
from headrace.runtime.child_spec import CompletedChild, FunctionSpec, Json
from headrace.runtime.supervisor import run_children
from headrace.units import parse_bytes

SIZES: Final[dict[str, tuple[int, int]]] = {
    "360p": (360, 640),
    "720p": (720, 1280),
    "1080p": (1080, 1920),
    "4K": (2160, 3840),
}
"""(height, width)."""
RUN_MODEL: Final = "mobilenet_v2"
"""Default model of `headrace run`, which reads these figures for `--batch-size auto`."""
ROW_SECONDS: Final = 120.0
"""Seconds for the batches of one precision and one frame size."""


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(ThreadedModelConfig):
    """Options of `bench memory`."""

    videos: Annotated[
        tuple[str, ...],
        VideoArgument("Videos whose largest frame size is measured as well.", is_needed=False),
    ] = ()
    model_name: ModelName = RUN_MODEL
    sizes: Annotated[
        tuple[Literal["360p", "720p", "1080p", "4K"], ...], Option("Sizes of the frames.")
    ] = ("360p", "720p", "1080p", "4K")
    batch_sizes: Annotated[tuple[int, ...], Option("Frames in a batch.", least=1)] = (1, 4, 16)
    precisions: Annotated[
        tuple[Literal["auto", "float32", "float16", "bfloat16"], ...],
        Option("float32, float16, bfloat16; auto: float32, and in 16 bits what suits the device."),
    ] = ("auto",)
    max_memory: Annotated[
        str | None,
        Option("Most to take, like 4GiB; else 1/4 of free main memory, 9/10 of a GPU's."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or not self.precisions:
            raise ConfigError("sizes and precisions must name one at least, got none")
        if self.max_memory is not None:
            parse_bytes(self.max_memory)


def announce(config: MemoryConfig) -> str:
    """Return the estimated time as text."""
    precisions = len(config.precisions) + ("auto" in config.precisions)
    max_rows = precisions * (len(config.sizes) + bool(config.videos))
    return (
        f"Time: some seconds for each of {counted(max_rows, 'row')} of batches, at most "
        f"{seconds(ROW_SECONDS)} each"
    )


Status = Literal["measured", "over_limit", "out_of_memory", "failed"]


class FrameSizeRecord(Record):
    """One frame size: a column of the table."""

    name: str
    """`720p`, or the height and width of a video: `360x480`."""
    height: PositiveInt
    width: PositiveInt


class CellRecord(Record):
    """Peak memory of one batch."""

    size: str
    """Name of the frame size."""
    batch_size: PositiveInt
    precision: Precision
    status: Status
    """`over_limit`: predicted above the limit, not run; `out_of_memory`: this or a smaller batch
    did not fit."""
    peak_bytes: NonNegativeInt | None = None
    """Peak: memory reserved by PyTorch on the GPU; memory of the whole process on the CPU."""
    allocated_bytes: NonNegativeInt | None = None
    """Peak allocated by tensors on the GPU; None on the CPU."""
    model_bytes: NonNegativeInt | None = None
    """Peak reserved for the model alone on a preprocessed batch; None on the CPU."""
    predicted_bytes: NonNegativeInt | None = None
    """Predicted peak, if the batch was not run."""
    base_bytes: NonNegativeInt | None = None
    """Memory before the first batch: the model, and on the CPU also Python and PyTorch."""
    why: str | None = None
    """Reason of a failure."""


class MemoryRecord(BenchmarkRecord):
    """Peaks of all batches."""

    model: str
    device: Literal["cpu", "cuda"]
    device_name: str
    limit_bytes: PositiveInt
    """Max total memory of a batch."""
    sizes: tuple[FrameSizeRecord, ...]
    cells: tuple[CellRecord, ...]
    not_kept: str | None
    """Reason `--batch-size auto` cannot use the record; None: it can."""


_KILLED: Final = -signal.SIGKILL
"""Exit code of a process killed by Linux's OOM killer."""
_SHARE: Final = 0.25
"""Default share of free main memory to use."""
_IN_COMMON: Final = ("model_name", "weights", "device", "prep_level", "threads")
"""Options passed to each process."""


@dataclass(frozen=True, kw_only=True)
class MemoryJob:
    """Work of one process: one precision, some frame sizes."""

    precision: Precision
    sizes: tuple[FrameSizeRecord, ...]

    @property
    def name(self) -> str:
        """`float32, 720p`."""
        return ", ".join([self.precision, *(size.name for size in self.sizes)])


def measured_cells(
    config: MemoryConfig,
    precisions: Sequence[Precision],
    sizes: tuple[FrameSizeRecord, ...],
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
    from headrace.bench.memory_child import measure_row

    in_processes = [(size,) for size in sizes] if config.device == "cpu" else [sizes]
    jobs = [MemoryJob(precision=p, sizes=some) for p in precisions for some in in_processes]
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
            name=job.name,
            function=measure_row,
            argument={
                **{name: getattr(config, name) for name in _IN_COMMON},
                "precision": job.precision,
                "sizes": [[size.height, size.width] for size in job.sizes],
                "batch_sizes": [*sorted(config.batch_sizes)],
                "limit_bytes": limit,
            },
            timeout_seconds=ROW_SECONDS * len(job.sizes),
        )
        for job in jobs
    ]
    endings = run_children(calls, max_running=1, on_message=on_message)
    limits = [
        message["limit_bytes"]
        for ending in endings
        for message in cast("tuple[dict[str, Any], ...]", ending.messages)
        if "limit_bytes" in message
    ]
    cells = chain(*map(partial(_cells, config), jobs, endings))
    return tuple(cells), limit or min(limits, default=1)


def _cells(config: MemoryConfig, job: MemoryJob, ending: CompletedChild) -> list[CellRecord]:
    """Return one record per batch of a job, including batches that its process did not reach."""
    messages = cast("tuple[dict[str, Any], ...]", ending.messages)
    base = next((message["base_bytes"] for message in messages if "base_bytes" in message), None)
    results = {
        (*message["size"], message["batch_size"]): message
        for message in messages
        if "status" in message
    }
    # A process killed before its first batch does not prove that a batch was too large.
    is_killed = ending.exit_code == _KILLED and not ending.has_timed_out and bool(results)
    lost = {"status": "out_of_memory"} if is_killed else {"status": "failed", "why": _why(ending)}
    cells = []
    for size, batch_size in product(job.sizes, sorted(config.batch_sizes)):
        result = results.get((size.height, size.width, batch_size), lost)
        known = {"precision": job.precision, "batch_size": batch_size, "base_bytes": base}
        known |= lost if result["status"] == "begun" else result
        cells.append(CellRecord.model_validate(known | {"size": size.name}))
    return cells


def _why(ending: CompletedChild) -> str:
    """Return the reason a process failed, without the exception class."""
    if ending.error is not None:
        return in_one_line(ending.error.partition(": ")[2]) or ending.error
    return ending.describe()


def measure_memory(config: MemoryConfig, context: Context) -> MemoryRecord:
    """Run batches of growing size in child processes; store their peaks.

    Raises:
        ConfigError: the model is unknown, or its weights are not available.
        BackendError: the device is missing, or no batch can be measured.
        MediaError: a video cannot be opened.
    """
    from headrace.models.compute import Compute
    from headrace.models.load import load_classifier
    from headrace.models.precision_support import check_available
    from headrace.runs.model_setup import memory_key

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


def _sizes_of(config: MemoryConfig, context: Context) -> tuple[FrameSizeRecord, ...]:
    """Return the requested frame sizes and the largest video's size, by area."""
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
    usual = usual_precisions(config.device) if "auto" in config.precisions else ()
    named = [usual if name == "auto" else (name,) for name in config.precisions]
    return tuple(dict.fromkeys(chain(*named)))


def _keep(
    key: MemoryKey,
    sizes: Sequence[FrameSizeRecord],
    cells: Sequence[CellRecord],
    today: str,
    context: Context,
) -> str | None:
    """Store peaks for `--batch-size auto`; return the reason they cannot be stored."""
    if not any(cell.peak_bytes for cell in cells):
        return "no batch was measured"
    tables = MemoryTables.beside(context.store)
    by_name = {size.name: (size.height, size.width) for size in sizes}
    for precision, own in grouped(cells, lambda cell: cell.precision).items():
        measured = [
            MemoryCell(
                size=by_name[cell.size],
                batch_size=cell.batch_size,
                peak_bytes=cell.peak_bytes,
                model_bytes=cell.model_bytes,
            )
            for cell in own
            if cell.peak_bytes is not None
        ]
        try:
            if measured:
                tables.keep(replace(key, precision=precision), measured, today)
        except ConfigError as error:
            return str(error)
    return None
