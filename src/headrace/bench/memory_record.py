"""What `bench memory` measured, as values."""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from headrace.bench.record import ExperimentRecord
from headrace.profiling.provenance import Record

Precision = Literal["float32", "float16", "bfloat16"]
Status = Literal["measured", "over_limit", "out_of_memory", "failed"]


class FrameSizeRecord(Record):
    """A size of frames, as a column."""

    name: str
    """`720p`; of a video `360x480`, height and width."""
    height: PositiveInt
    width: PositiveInt


class CellRecord(Record):
    """One batch."""

    size: str
    """Name of the size of its frames."""
    batch_size: PositiveInt
    precision: Precision
    status: Status
    """`over_limit`: by smaller ones it would take more than is allowed, and was not run;
    `out_of_memory`: it was run and did not fit, or a smaller one did not."""
    peak_bytes: NonNegativeInt | None = None
    """Reserved by PyTorch on the GPU; on the CPU all of the process."""
    allocated_bytes: NonNegativeInt | None = None
    """By tensors on the GPU; None on the CPU."""
    model_bytes: NonNegativeInt | None = None
    """Reserved for the model alone, its batch preprocessed before; None on the CPU."""
    predicted_bytes: NonNegativeInt | None = None
    """Where it was not run."""
    base_bytes: NonNegativeInt | None = None
    """Held before any batch: the model, and on the CPU Python and PyTorch."""
    why: str | None = None
    """Where it failed."""


class MemoryRecord(ExperimentRecord):
    """What was measured."""

    model: str
    device: Literal["cpu", "cuda"]
    device_name: str
    limit_bytes: PositiveInt
    """That a batch may take, all included."""
    sizes: tuple[FrameSizeRecord, ...]
    cells: tuple[CellRecord, ...]
    not_kept: str | None
    """Why `--batch-size auto` cannot use it; None where it can."""


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """One precision and batch size."""

    precision: Precision
    batch_size: int
    cells: tuple[CellRecord, ...]
    """One for each size of frames."""
    limit_bytes: int
    on_gpu: bool
