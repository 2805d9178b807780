"""Configuration and record of `bench transfer`."""

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
    """Options of `bench transfer`."""

    one_video_of: ClassVar = "transfer"
    size: FrameSize = (224, 224)
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3


class CopyStats(Record):
    """Copied bytes of one variant, and the difference of its tensors from the first variant's."""

    way: str
    up_bytes: NonNegativeFloat | None = None
    """Host-to-device bytes per frame, counted from the copied tensors. Without a GPU, copies stay
    in main memory. None: not measured."""
    down_bytes: NonNegativeFloat | None = None
    """Device-to-host bytes per frame, of the copied planes. None: not measured."""
    after_ms: NonNegativeFloat | None = None
    """Milliseconds per frame, from the decoded frame to the normalised tensor on the GPU."""
    most_apart: NonNegativeFloat | None = None
    """Max difference, grey levels."""
    mean_apart: NonNegativeFloat | None = None
    why_not: str | None = None
    """Reason it was skipped; None: it was timed."""


class TransferRecord(VariantRecord):
    """Repetitions and copies of all variants; no repetitions without a GPU."""

    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the tensors."""
    batch_size: PositiveInt
    gpu: str | None
    """Name of the GPU; None: no GPU."""
    ways: tuple[CopyStats, ...]
    """All variants in order, skipped ones included."""
