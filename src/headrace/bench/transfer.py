"""Transfer benchmark: bytes copied between CPU and GPU from video to normalised tensor."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import Context, SuiteSpec
from headrace.bench.charts import Charts, bars
from headrace.bench.config import (
    PREP_ON_GPU,
    BatchSize,
    BenchmarkConfig,
    Repeats,
    TurnSeconds,
    indexes_of,
)
from headrace.bench.variant_benchmark import (
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantSet,
    figure,
    for_seconds,
)
from headrace.config_fields import FrameSize
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.decode.pyav import PyavDecoder
from headrace.errors import BackendError
from headrace.models.compute import Device
from headrace.preprocess.spec import InputSpec
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import count, decimal
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column
from headrace.runtime.clock import Clock
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch

    from headrace.models.device import Copy
    from headrace.preprocess.levels import Frames, Preprocess
    from headrace.runs.run_stages import Transfer

PAGEABLE: Final = "CPU, float32"
PINNED: Final = "CPU, float32, pinned"
UINT8: Final = "CPU, uint8, pinned"
DOWNLOADED: Final = "NVDEC, downloaded"
KEPT: Final = "NVDEC, kept on the GPU"
NO_GPU: Final = "no NVIDIA GPU here"
_SPEC: Final = InputSpec(
    resize=None,
    crop=None,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    interpolation="bilinear",
)
"""Input with normalisation only: decoded frames already have the requested size."""
_ALLOWED: Final = (0.01, 0.01)
"""Max and mean difference allowed, grey levels: float32 on two devices."""
_ALLOWED_KEPT: Final = (46.0, 3.0)
"""The same for RGB converted on the GPU: see `TensorConverter`."""


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


@contextmanager
def _prepare(config: TransferConfig, context: Context) -> Iterator[VariantSet[TransferRecord]]:
    """Check that all variants give equal tensors; without a GPU, no variant is timed.

    Raises:
        ConfigError, MediaError: the video cannot be read.
        BackendError: a variant's tensors differ from the first variant's.
    """
    from torch import cuda

    (index,) = indexes_of(config.videos, context.store)
    device: Device = "cuda" if cuda.is_available() else "cpu"
    context.on_progress("comparing variants", 0, 0)
    with open_flows(index, config, context.clock, device=device) as flows:
        check_equal(flows, device)
        timed = {} if device == "cpu" else _available(flows)
        repetition = partial(for_seconds, seconds=config.seconds, clock=context.clock)
        yield VariantSet(
            variants={
                variant: repetition((flow,), lambda flow: len(flow.next()))
                for variant, flow in timed.items()
            },
            record=lambda **measured: TransferRecord(
                **measured,
                size=config.size,
                batch_size=config.batch_size,
                gpu=cuda.get_device_name() if device == "cuda" else None,
                ways=tuple(_copy_stats(variant, flow, device) for variant, flow in flows.items()),
            ),
        )


@dataclass(kw_only=True, eq=False)
class Flow:
    """One variant in one thread, from video to normalised tensor; counts its copies."""

    decoder: Decoder[Any]
    carrier: "Transfer"
    normalise: "Preprocess"
    clock: Clock
    batches: "Generator[Frames, None, None]"
    """Endless batches of the looping video."""
    carries_frames: bool
    """Whether uint8 frames are copied, then normalised; else float32 tensors are copied."""
    frames: int = 0
    """Frames converted to tensors."""
    after_ns: int = 0
    """Nanoseconds from decoded frames to tensors."""
    difference: tuple[float | None, float | None] = (None, None)
    """Max and mean difference from the first variant, grey levels; None: not compared."""

    def next(self) -> "torch.Tensor":
        """Return the next batch, float32 [N, 3, H, W], complete on return."""
        from torch.cuda import current_stream

        batch = next(self.batches)
        started_ns = self.clock.now_ns()
        if self.carries_frames:
            tensor = self.normalise(self.carrier.carry(batch))
        else:
            tensor = self.carrier.carry(self.normalise(batch))
        if tensor.is_cuda:
            current_stream(tensor.device).synchronize()
        self.after_ns += self.clock.now_ns() - started_ns
        self.frames += len(batch)
        return tensor

    @property
    def down_bytes(self) -> int:
        """Device-to-host bytes."""
        return self.decoder.brought_down_bytes if isinstance(self.decoder, PyavDecoder) else 0


Flows = dict[str, Flow | str]
"""Variant → its flow, or the reason it is not available."""


@contextmanager
def open_flows(
    index: StreamIndex, config: TransferConfig, clock: Clock, *, device: Device
) -> Iterator[Flows]:
    """Open every variant; with device `cpu`, copies stay in main memory."""
    from headrace.models.device import PinnedCopy, copy_to
    from headrace.preprocess.levels import build_preprocess
    from headrace.runs.run_stages import Transfer

    is_gpu, shape = device == "cuda", FrameFormat(size=config.size)
    normalise, flows = build_preprocess("simple", _SPEC), Flows()
    plain: Copy = copy_to if is_gpu else _clone
    first_pinned, pinned = (PinnedCopy() if is_gpu else _clone for _ in range(2))
    on_gpu = DecoderConfig(device="cuda:0" if is_gpu else "cpu", keeps_on_device=True)
    with ExitStack() as opened:
        for variant, open_frames, decoding, copy in (
            (PAGEABLE, open_decoder, ON_CPU, plain),
            (PINNED, open_decoder, ON_CPU, first_pinned),
            (UINT8, open_decoder, ON_CPU, pinned),
            (DOWNLOADED, open_decoder, DecoderConfig.on_gpu(0), plain),
            # Frames already on the device are not copied.
            (KEPT, open_device_decoder, on_gpu, copy_to),
        ):
            try:
                decoder = opened.enter_context(closing(open_frames(index, shape, decoding)))
            except BackendError as error:
                flows[variant] = str(error)
                continue
            flows[variant] = Flow(
                decoder=decoder,
                carrier=Transfer(device, copy),
                normalise=normalise,
                clock=clock,
                batches=opened.enter_context(closing(_endless(decoder, config.batch_size))),
                carries_frames=variant in (UINT8, KEPT),
            )
        yield flows


def _available(flows: Flows) -> dict[str, Flow]:
    return {variant: flow for variant, flow in flows.items() if isinstance(flow, Flow)}


def check_equal(flows: Flows, device: Device) -> None:
    """Compare the first batch of every variant with the first variant's.

    Raises:
        BackendError: a difference exceeds the tolerance for float32, or for RGB conversion on a
            GPU.
    """
    from headrace.bench.model_work import check_frames_equal

    first, *others = _available(flows).items()
    expected = first[1].next().cpu()
    for variant, flow in others:
        if device == "cpu" and variant == DOWNLOADED:
            continue
        try:
            tensor = flow.next().cpu()
        except BackendError as error:
            flows[variant] = str(error)
            continue
        flow.difference = check_frames_equal(
            f"tensors of {variant} differ from {PAGEABLE}",
            tensor,
            expected,
            _SPEC.std,
            allowed=_ALLOWED_KEPT if variant == KEPT else _ALLOWED,
            fix="decode on the CPU",
        )


def _copy_stats(variant: str, flow: Flow | str, device: Device) -> CopyStats:
    """Return the copies of a variant so far."""
    is_gpu = device == "cuda"
    if isinstance(flow, str):
        return CopyStats(way=variant, why_not=flow if is_gpu else NO_GPU)
    is_counted = flow.frames > 0 and (is_gpu or variant not in (DOWNLOADED, KEPT))
    max_difference, mean = flow.difference
    return CopyStats(
        way=variant,
        up_bytes=flow.carrier.moved_bytes / flow.frames if is_counted else None,
        down_bytes=flow.down_bytes / flow.frames if is_counted else None,
        after_ms=flow.after_ns / 1e6 / flow.frames if is_gpu and flow.frames else None,
        most_apart=max_difference,
        mean_apart=mean,
        why_not=None if is_gpu else NO_GPU,
    )


def _clone(tensor: "torch.Tensor", device: Device) -> "torch.Tensor":
    """Return a copy in main memory, in place of a GPU copy of equal size."""
    return tensor.clone()


def _endless(decoder: Decoder[Any], batch_size: int) -> "Generator[Frames, None, None]":
    """Yield batches of up to `batch_size` frames of the looping video."""
    import torch

    job = DecodeJob(tuple(range(len(decoder.index))), goes_on=False)
    while True:
        frames: Iterator[Any] = (frame for _, frame in decoder.run(job))
        while batch := list(islice(frames, batch_size)):
            is_tensor = isinstance(batch[0], torch.Tensor)
            yield torch.stack(batch) if is_tensor else np.stack(batch)


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
    prepare=_prepare,
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
