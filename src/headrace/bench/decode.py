"""Decoder benchmark: rate of each backend on the CPU and on a GPU."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Final, Literal, TypeAlias

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Context, SuiteSpec
from headrace.bench.config import BenchmarkConfig, Repeats, TurnSeconds, indexes_of
from headrace.bench.variant_benchmark import (
    Ranking,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantSet,
    Work,
    figure,
    for_seconds,
)
from headrace.config_fields import Option
from headrace.decode.capabilities import PixelDifference
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.open_decoder import capabilities_of, open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, MediaError
from headrace.planning.chunks import GopRange
from headrace.profiling.findings.finding import Change
from headrace.profiling.number_format import counted, decimal
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column
from headrace.video.stream_index import StreamIndex

Access = Literal["in-order", "random"]
MOST_VIDEOS: Final = 8
"""Max videos; each decoder keeps all of them open."""
_BY_TORCHCODEC: Final = 'decoding=DecoderConfig(backend="torchcodec"'
_CHANGES: Final = {
    "torchcodec CPU": Change(words=f"{_BY_TORCHCODEC}) for loaders and readers"),
    "torchcodec CUDA": Change(words=f'{_BY_TORCHCODEC}, device="cuda:0") for loaders and readers'),
    "PyNvVideoCodec": Change(
        words='decoding=DecoderConfig(backend="pynvvideocodec", device="cuda:0") '
        "for loaders and readers"
    ),
    "NVDEC": Change(words="gpu=0 for loaders, decoding=DecoderConfig.on_gpu(0) for readers"),
}
_COMPARED: Final = 8
"""Frame ranges whose last frame is compared with PyAV's."""
_COUNT: Final = {"in-order": 8, "random": 24}
"""Frame ranges."""
_LENGTH: Final = {"in-order": 32, "random": 1}
"""Frames per range."""
_GOLDEN_RATIO: Final = 0.618_033_988_749_895


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(BenchmarkConfig):
    """Options of `bench decode`."""

    access: Annotated[
        Access, Option("Access: 32 frames from a keyframe on, or single random frames.")
    ] = "in-order"
    gpu: Annotated[int, Option("Index of the NVIDIA GPU.", least=0)] = 0
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3


class MethodRecord(Record):
    """One decoder: its difference from PyAV's frames, or the reason it was skipped."""

    way: str
    device: Literal["CPU", "GPU"]
    is_ours: bool
    status: str | None = None
    """Short reason it was skipped; None: it was timed."""
    why_not: str = ""
    compared: NonNegativeInt = 0
    """Frames compared with PyAV's before timing."""
    mean_apart: NonNegativeFloat = 0.0
    """Mean difference in levels of 255, of the worst frame."""
    most_apart: NonNegativeInt = 0
    """Largest difference of one value, in levels of 255."""


class DecodeRecord(VariantRecord):
    """Repetitions and differences of all decoders."""

    videos: PositiveInt
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the largest video."""
    codecs: tuple[str, ...]
    access: Access
    methods: tuple[MethodRecord, ...]


Frames: TypeAlias = Sequence[Array]
"""Last frame of each compared range."""
Read: TypeAlias = Callable[[GopRange], Iterator[Array]]
"""Yields the frames of a range, uint8 [H, W, 3], RGB, on the CPU."""


def methods(gpu: int) -> dict[str, DecoderConfig | None]:
    """Return all decoders, the reference first; None: not a decoder of headrace."""
    on_gpu = f"cuda:{gpu}"
    return {
        "PyAV": DecoderConfig(),
        "torchcodec CPU": DecoderConfig(backend="torchcodec"),
        "torchcodec CUDA": DecoderConfig(backend="torchcodec", device=on_gpu),
        "NVDEC": DecoderConfig(device=on_gpu),
        "PyNvVideoCodec": DecoderConfig(backend="pynvvideocodec", device=on_gpu),
        "decord": None,
    }


def _device_of(decoding: DecoderConfig | None) -> Literal["CPU", "GPU"]:
    return "CPU" if decoding is None or decoding.device == "cpu" else "GPU"


def why_not(decoding: DecoderConfig | None, gpu: int) -> dict[str, object]:
    """Return record fields with the reason a decoder cannot run here; empty if it can."""
    import torch

    if decoding is None and find_spec("decord") is None:
        reason = "decord is not installed (pip install decord)"
        return {"status": "not installed", "why_not": reason}
    if decoding is not None:
        try:
            capabilities_of(decoding)
        except BackendError as error:
            is_missing = isinstance(error.__cause__, ImportError)
            status = "not installed" if is_missing else "not usable"
            return {"status": status, "why_not": str(error)}
    count = torch.cuda.device_count()
    if _device_of(decoding) == "GPU" and gpu >= count:
        available = counted(count, "GPU") if count else "no NVIDIA GPU"
        reason = f"it needs GPU {gpu}, but PyTorch {torch.__version__} finds {available}"
        return {"status": "no GPU", "why_not": reason}
    return {}


def _announce(config: DecodeConfig) -> str:
    """Return the estimated time as text."""
    num_methods = len(methods(config.gpu))
    total = num_methods * config.repeats + 1
    return (
        f"Up to {num_methods} decoders, {total} repetitions of {config.seconds:g} s, after a "
        "comparison of their frames."
    )


@contextmanager
def _prepare(config: DecodeConfig, context: Context) -> Iterator[VariantSet[DecodeRecord]]:
    """Compare the frames of every decoder that runs here with PyAV's.

    Raises:
        ConfigError: a video has no duration.
        MediaError: a video cannot be opened, or PyAV cannot decode a frame of it.
    """
    count = min(MOST_VIDEOS, len(config.videos))
    videos = [config.videos[position * len(config.videos) // count] for position in range(count)]
    indexes = indexes_of(videos, context.store)
    ranges = ranges_of(indexes, config.access)
    records: list[MethodRecord] = []
    variants: dict[str, Work] = {}
    expected: Frames = ()
    decoders = methods(config.gpu)
    with ExitStack() as stack:
        for number, (name, decoding) in enumerate(decoders.items()):
            context.on_progress(f"{name}, compared", number, len(decoders))
            fields = why_not(decoding, config.gpu) if number else {}
            if not fields:
                with ExitStack() as opened:
                    try:
                        read = _open_readers(decoding, indexes, opened)
                        frames = last_frames(read, ranges)
                        expected = expected or frames
                        fields = _compare_frames(frames, expected)
                    except (BackendError, MediaError) as error:
                        if not expected:
                            raise
                        fields = {"status": "refused", "why_not": str(error)}
                    if "status" not in fields:
                        stack.push(opened.pop_all())
                        variants[name] = for_seconds(
                            ranges,
                            partial(_count_frames, read),
                            seconds=config.seconds,
                            clock=context.clock,
                        )
            fields |= {"way": name, "device": _device_of(decoding), "is_ours": bool(decoding)}
            records.append(MethodRecord.model_validate(fields))
        yield VariantSet(
            variants=variants,
            record=partial(
                DecodeRecord,
                videos=len(indexes),
                size=max((index.info.upright_size for index in indexes), key=np.prod),
                codecs=tuple(dict.fromkeys(index.info.codec for index in indexes)),
                access=config.access,
                methods=tuple(records),
            ),
        )


def _compare_frames(frames: Frames, expected: Frames) -> dict[str, object]:
    """Return record fields with the difference from the reference frames."""
    differences = [  # None: frames of different sizes
        PixelDifference.between(frame, reference)
        for frame, reference in zip(frames, expected, strict=True)
    ]
    known = [difference for difference in differences if difference is not None]
    fields: dict[str, object] = {
        "compared": len(differences),
        "mean_apart": max((difference.mean for difference in known), default=0.0),
        "most_apart": max((difference.max for difference in known), default=0),
    }
    wrong = sum(difference is None or not difference.is_equal for difference in differences)
    if wrong:
        reason = f"{wrong} of {len(differences)} frames differ from PyAV's"
        fields |= {"status": "differs", "why_not": reason}
    return fields


def ranges_of(indexes: Sequence[StreamIndex], access: Access) -> tuple[GopRange, ...]:
    """Return the ranges that every decoder reads, spread over all videos; deterministic."""
    ranges = []
    for draw in range(_COUNT[access]):
        video = draw % len(indexes)
        index = indexes[video]
        start = int((draw + 1) * _GOLDEN_RATIO % 1 * len(index))
        if access == "in-order":
            start, _ = index.gop_range(index.gop_of(start))
        wanted = range(start, min(len(index), start + _LENGTH[access]))
        ranges.append(GopRange(video=video, index=index, wanted=tuple(wanted)))
    return tuple(ranges)


def _open_readers(
    decoding: DecoderConfig | None, indexes: Sequence[StreamIndex], stack: ExitStack
) -> Read:
    """Open all videos in this thread, one decoder each, until the end of `stack`.

    Raises:
        BackendError, MediaError: the decoder cannot open or decode a video.
    """
    if decoding is None:
        readers = [_decord_reader(index) for index in indexes]
        return lambda gop_range: readers[gop_range.video](gop_range.wanted)
    decoders = [
        stack.enter_context(closing(open_decoder(index, None, decoding))) for index in indexes
    ]
    return lambda gop_range: (
        frame for _, frame in decoders[gop_range.video].run(DecodeJob(gop_range.wanted))
    )


def _count_frames(read: Read, gop_range: GopRange) -> int:
    return sum(1 for _ in read(gop_range))


def last_frames(read: Read, ranges: Sequence[GopRange]) -> list[Array]:
    """Read every range once; return the last frame of 8 ranges."""
    step, frames = max(1, len(ranges) // _COMPARED), list[Array]()
    for position, gop_range in enumerate(ranges):
        [last] = deque(read(gop_range), maxlen=1)
        frames += [last] * (position % step == 0)
    return frames


def _decord_reader(index: StreamIndex) -> Callable[[tuple[int, ...]], Iterator[Array]]:
    """Return a function that yields frames by index through decord.

    Raises:
        BackendError: decord cannot open the file, or counts another number of frames.
    """
    import decord

    problem = f"decord cannot decode {index.source}"
    try:
        reader = decord.VideoReader(str(index.source.path), ctx=decord.cpu(0), num_threads=1)
    except (RuntimeError, OSError, decord.DECORDError) as error:
        raise BackendError(f"{problem}: {str(error).partition(chr(10))[0]}") from error
    if len(reader) != len(index):
        raise BackendError(f"{problem}: it finds {len(reader)} frames of {len(index)}")

    def frames(wanted: tuple[int, ...]) -> Iterator[Array]:
        try:
            for frame_index in wanted:
                yield np.asarray(reader[frame_index].asnumpy(), np.uint8)
        except (RuntimeError, IndexError, decord.DECORDError) as error:
            raise BackendError(f"{problem}: {str(error).partition(chr(10))[0]}") from error

    return frames


def _evidence(record: DecodeRecord, rows: Rows[MethodRecord], ranking: Ranking) -> Iterator[str]:
    for row in rows:
        if row.repetitions and not row.facts.is_ours:
            rate = decimal(row.rate.median)
            yield f"{row.variant}, which headrace does not use: {rate} frames/s."
        if row.facts.status is not None:
            yield f"{row.variant} was skipped: {row.facts.why_not.rstrip('.')}."
    others = [row.facts for row in rows[1:] if row.repetitions]
    if others:
        furthest = max(others, key=lambda method: method.mean_apart)
        yield (
            f"Before timing, {counted(furthest.compared, 'frame')} of each method were compared "
            f"with PyAV's: mean difference at most {decimal(furthest.mean_apart)} of 255 levels, "
            f"largest difference {max(method.most_apart for method in others)}."
        )
    if record.videos == MOST_VIDEOS:
        yield f"At most {MOST_VIDEOS} videos are read, spread over the given ones."


def _headline(record: DecodeRecord, rows: Rows[MethodRecord], ranking: Ranking) -> str:
    reason = ranking.noise.cpu_time_reason
    ours = [row for row in rows if row.repetitions and row.facts.is_ours]
    if not reason or any(row.facts.device == "GPU" for row in ours):
        return ranking.headline()
    ours.sort(key=lambda row: row.cpu_ms)
    costs = ", ".join(f"{row.variant} {decimal(row.cpu_ms)} ms" for row in ours)
    return f"CPU time per frame, lowest first: {costs}. {reason}"


DECODE: Final = VariantBenchmark(
    name="decode",
    summary="Time decoding by each backend: PyAV, torchcodec, NVDEC, PyNvVideoCodec, decord.",
    config=DecodeConfig,
    record=DecodeRecord,
    prepare=_prepare,
    title=lambda record: (
        f"Decoding {counted(record.videos, 'video')} ({', '.join(record.codecs)}), up to "
        f"{record.size[0]}x{record.size[1]}, frames "
        f"{'in order' if record.access == 'in-order' else 'at random'}"
    ),
    reading=lambda record, rows: (
        "One decoder in one thread. Frames are full-size RGB in main memory, so frames decoded on "
        "a GPU are downloaded. FPS are medians over the repetitions. CPU ms is CPU time per frame, "
        "above the decode time if a library uses several threads. Diff is the mean difference from "
        "PyAV's pixels, in levels of 255. Files are opened and checked before timing."
    ),
    head="method",
    facts=lambda record: {method.way: method for method in record.methods},
    columns=(
        Column("method", lambda row: row.variant),
        figure("mean decode ms", lambda row: row.ms.median),
        figure("FPS", lambda row: row.rate.median),
        figure("CPU ms", lambda row: row.cpu_ms),
        figure("slowest", lambda row: row.rate.lowest),
        figure("fastest", lambda row: row.rate.highest),
        Column("diff", lambda row: decimal(row.facts.mean_apart if row.facts.compared else None)),
        Column("skipped", lambda row: row.facts.status or "-"),
    ),
    ranks=lambda row: row.facts.is_ours,
    headline=_headline,
    changes=lambda record: _CHANGES,
    evidence=_evidence,
    rates=("Frames per second by method", "The same frames by each available method."),
    announce=_announce,
    terms=SuiteSpec(concerns="decode", seconds=40),
).benchmark()
