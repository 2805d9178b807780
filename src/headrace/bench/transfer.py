"""Transfer benchmark: bytes copied between CPU and GPU from video to normalised tensor."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import SuiteSpec, deferred
from headrace.bench.charts import Charts, bars
from headrace.bench.config import PREP_ON_GPU, BatchSize, BenchmarkConfig, Repeats, TurnSeconds
from headrace.bench.variant_benchmark import Rows, VariantBenchmark, VariantRecord, figure
from headrace.config_fields import FrameSize
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import count, decimal
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column

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


def _smallest_copy(rows: Rows[CopyStats]) -> str:
    """Return the sentence on the counted variant with the fewest copied bytes."""
    total = {
        row.variant: row.facts.up_bytes + (row.facts.down_bytes or 0)
        for row in rows
        if row.facts.up_bytes is not None
    }
    smallest = min(total, key=lambda variant: total[variant])
    return (
        f"Fewest bytes are copied by {smallest}: {_bytes(total[smallest])} per frame, "
        f"{_bytes(total[PAGEABLE])} by {PAGEABLE}"
    )


def _evidence(record: TransferRecord) -> Iterator[str]:
    if record.gpu is None:
        yield (
            "Bytes were counted on copies within main memory, which are as large as copies to a "
            "GPU; copies of NVDEC need a GPU. The RGB conversion for a GPU was compared with the "
            "others on the CPU."
        )
    for stats in record.ways:
        if stats.why_not not in (None, NO_GPU):
            yield f"{stats.way} was skipped: {stats.why_not}."
    differences = ", ".join(
        f"{decimal(stats.most_apart)} by {stats.way}"
        for stats in record.ways
        if stats.most_apart is not None
    )
    if differences:
        yield f"First batch: equal within the tolerance; max grey-level difference: {differences}."
    yield (
        "Each variant decodes with one decoder in one thread, sequentially; a run decodes on all "
        "cores and overlaps copies."
    )


def _bytes(number: float | None) -> str:
    return "-" if number is None else count(round(number))


def _charts(rows: Rows[CopyStats]) -> Charts:
    counted = [row.facts for row in rows if row.facts.up_bytes is not None]
    chart = bars(
        [stats.way for stats in counted],
        {
            "CPU to GPU": [(stats.up_bytes or 0) / 1e3 for stats in counted],
            "GPU to CPU": [(stats.down_bytes or 0) / 1e3 for stats in counted],
        },
        "kB per frame",
        name="bytes",
        title="Bytes copied between CPU and GPU",
        axis="variant",
        is_stacked=True,
        reading="Counted from the tensors and planes that were copied.",
    )
    return (chart,)


TRANSFER: Final = VariantBenchmark(
    name="transfer",
    summary="Count the bytes copied between CPU and GPU per frame, and time each variant.",
    config=TransferConfig,
    record=TransferRecord,
    prepare=deferred("transfer_variants:prepare"),
    title=lambda record: (
        f"From the video to a normalised tensor of {record.size[0]}x{record.size[1]} on "
        f"{record.gpu or 'a GPU'}"
    ),
    reading=lambda record, rows: (
        "Bytes per frame to the GPU (H2D) and from it (D2H), counted. Frames per second from file "
        "to tensor, medians over the repetitions. ms after: milliseconds per frame after decoding. "
        "float32 is normalised on the CPU, uint8 on the GPU. -: not measured."
    ),
    facts=lambda record: {stats.way: stats for stats in record.ways},
    columns=(
        Column("variant", lambda row: row.variant),
        Column("H2D bytes", lambda row: _bytes(row.facts.up_bytes)),
        Column("D2H bytes", lambda row: _bytes(row.facts.down_bytes)),
        figure("frames/s", lambda row: row.rate.median),
        Column("ms after", lambda row: decimal(row.facts.after_ms)),
    ),
    headline=lambda record, rows, ranking: f"{ranking.headline()}. {_smallest_copy(rows)}",
    changes=lambda record: {UINT8: PREP_ON_GPU},
    evidence=lambda record, rows, ranking: _evidence(record),
    not_timed=lambda record, rows: Finding(
        headline=f"Nothing was timed: {NO_GPU}. {_smallest_copy(rows)}",
        evidence=tuple(_evidence(record)),
        change="Measure on a machine with an NVIDIA GPU.",
    ),
    rates=None,
    charts=_charts,
    terms=SuiteSpec(seconds=20),
).benchmark()
