"""Transfer benchmark: bytes copied between CPU and GPU from video to normalised tensor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.bench.benchmark import Context
from headrace.bench.charts import bars
from headrace.bench.config import indexes_of
from headrace.bench.suite.suite_spec import SuiteSpec
from headrace.bench.transfer_record import (
    NO_GPU,
    PAGEABLE,
    UINT8,
    CopyStats,
    TransferConfig,
    TransferRecord,
)
from headrace.bench.variant_benchmark import (
    NOT_TIMED,
    Ranking,
    Rows,
    VariantBenchmark,
    VariantSet,
    figure,
)
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import count, decimal
from headrace.report.benchmark_page import Column
from headrace.report.drawing import Chart


@contextmanager
def _prepare(config: TransferConfig, context: Context) -> Iterator[VariantSet[TransferRecord]]:
    """Check that all variants give equal tensors; without a GPU, no variant is timed.

    Raises:
        ConfigError, MediaError: the video cannot be read.
        BackendError: a variant's tensors differ from the first variant's.
    """
    import torch

    from headrace.bench.transfer_variants import Flows

    (index,) = indexes_of(config.videos, context.store)
    has_gpu = torch.cuda.is_available()
    context.on_progress("proving that all variants give the same", 0, 0)
    with Flows(index, config, context.clock, device="cuda" if has_gpu else "cpu") as flows:
        flows.prove()
        yield VariantSet(
            variants=flows.variants() if has_gpu else {},
            record=lambda **measured: TransferRecord(
                **measured,
                size=config.size,
                batch_size=config.batch_size,
                gpu=torch.cuda.get_device_name() if has_gpu else None,
                ways=tuple(flows.carried(None if has_gpu else NO_GPU)),
            ),
        )


def _smallest_copy(rows: Rows[CopyStats]) -> str:
    """Return the sentence on the counted variant with the fewest copied bytes."""
    total = {
        row.variant: row.facts.up_bytes + (row.facts.down_bytes or 0)
        for row in rows
        if row.facts.up_bytes is not None
    }
    smallest = min(total, key=lambda variant: total[variant])
    return (
        f"Least is copied by {smallest}: {_bytes(total[smallest])} bytes a frame, "
        f"{_bytes(total[PAGEABLE])} by {PAGEABLE}"
    )


def _evidence(record: TransferRecord, rows: Rows[CopyStats]) -> Iterator[str]:
    if record.gpu is None:
        yield (
            "Bytes were counted on tensors copied to another place in main memory, as many as to a "
            "GPU; those of NVDEC are known only where there is one. What makes RGB there was held "
            "against the others on the CPU."
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
        yield f"First batch: equal in all; largest difference in grey levels: {differences}."
    yield (
        "Each variant decodes with one decoder, in one thread, one step after the other; a run "
        "decodes on all cores and copies meanwhile."
    )


def _skipped_finding(record: TransferRecord, rows: Rows[CopyStats]) -> Finding:
    return Finding(
        headline=f"Nothing was timed: {NO_GPU}. {_smallest_copy(rows)}",
        evidence=tuple(_evidence(record, rows)),
        change="Measure on a machine with an NVIDIA GPU.",
    )


def _headline(record: TransferRecord, rows: Rows[CopyStats], ranking: Ranking) -> str:
    return f"{ranking.headline()}. {_smallest_copy(rows)}"


def _bytes(number: float | None) -> str:
    return NOT_TIMED if number is None else count(round(number))


def _charts(rows: Rows[CopyStats]) -> tuple[Chart, ...]:
    counted = [row.facts for row in rows if row.facts.up_bytes is not None]
    bytes_by_way = bars(
        [timeline.way for timeline in counted],
        {
            "CPU to GPU": [(timeline.up_bytes or 0) / 1e3 for timeline in counted],
            "GPU to CPU": [(timeline.down_bytes or 0) / 1e3 for timeline in counted],
        },
        "kB per frame",
        name="bytes",
        title="What is copied between CPU and GPU",
        axis="variant",
        is_stacked=True,
        reading="Counted from the tensors and planes that were copied.",
    )
    return (bytes_by_way,)


TRANSFER: Final = VariantBenchmark(
    name="transfer",
    summary="Count the bytes copied between CPU and GPU for a frame, and time the ways to copy.",
    config=TransferConfig,
    record=TransferRecord,
    prepare=_prepare,
    title=lambda record: (
        f"From the video to a normalised tensor of {record.size[0]}x{record.size[1]} on "
        f"{record.gpu or 'a GPU'}"
    ),
    reading=lambda record, rows: (
        "Bytes of a frame to the GPU (H2D) and from it (D2H), counted; frames per second from the "
        "file to the tensor, medians over the repetitions; milliseconds of a frame behind "
        "decoding. float32 is normalised on the CPU, uint8 on the GPU; a dash was not measured."
    ),
    facts=lambda record: {stats.way: stats for stats in record.ways},
    columns=(
        Column("variant", lambda row: row.variant),
        Column("H2D bytes", lambda row: _bytes(row.facts.up_bytes)),
        Column("D2H bytes", lambda row: _bytes(row.facts.down_bytes)),
        figure("frames/s", lambda row: row.rate.median),
        Column(
            "ms after",
            lambda row: NOT_TIMED if row.facts.after_ms is None else decimal(row.facts.after_ms),
        ),
    ),
    headline=_headline,
    changes=lambda record: {
        UINT8: Change(
            words="--infer-on-gpu --prep-on-gpu of headrace run",
            options={"device": "cuda", "prep_on_gpu": True},
        )
    },
    evidence=lambda record, rows, ranking: _evidence(record, rows),
    not_timed=_skipped_finding,
    rates=None,
    charts=_charts,
    terms=SuiteSpec(seconds=20),
).benchmark()
