"""What `bench transfer` is asked and what it measured, as values."""

from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.config import BatchSize, BenchmarkConfig, Repeats, TurnSeconds
from headrace.bench.variant_benchmark import VariantRecord
from headrace.config_fields import FrameSize
from headrace.profiling.provenance import Record

PAGEABLE: Final = "CPU, float32"
PINNED: Final = "CPU, float32, pinned"
UINT8: Final = "CPU, uint8, pinned"
DOWNLOADED: Final = "NVDEC, downloaded"
KEPT: Final = "NVDEC, kept on the GPU"
NO_GPU: Final = "no NVIDIA GPU here"


@dataclass(frozen=True, kw_only=True)
class TransferConfig(BenchmarkConfig):
    """What is measured."""

    one_video_of: ClassVar = "transfer"
    size: FrameSize = (224, 224)
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3


class CopyStats(Record):
    """What one variant copies, and how far its tensors are from the first variant's."""

    way: str
    up_bytes: NonNegativeFloat | None = None
    """To the GPU, for each frame, counted from the tensors that were copied; without a GPU they
    were copied to another place in main memory. None where that was not done."""
    down_bytes: NonNegativeFloat | None = None
    """From the GPU, for each frame: of the planes that came down. None where none could."""
    after_ms: NonNegativeFloat | None = None
    """Of a frame, from the decoded picture to the normalised tensor on the GPU."""
    most_apart: NonNegativeFloat | None = None
    """Grey levels."""
    mean_apart: NonNegativeFloat | None = None
    why_not: str | None = None
    """Why it was not timed; None: it was."""


class TransferRecord(VariantRecord):
    """What was measured; no turns where there is no GPU."""

    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the tensors."""
    batch_size: PositiveInt
    gpu: str | None
    """Its name; None: there is none."""
    ways: tuple[CopyStats, ...]
    """All that there are, in order, also those that could not be timed."""
