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
from headrace.planning.gop_ranges import GopRange
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
    "torchcodec CPU": Change(words=f"{_BY_TORCHCODEC}) of loaders and readers"),
    "torchcodec CUDA": Change(words=f'{_BY_TORCHCODEC}, device="cuda:0") of loaders and readers'),
    "PyNvVideoCodec": Change(
        words='decoding=DecoderConfig(backend="pynvvideocodec", device="cuda:0") '
        "of loaders and readers"
    ),
    "NVDEC": Change(words="gpu=0 of loaders, decoding=DecoderConfig.on_gpu(0) of readers"),
}
_HELD: Final = 8
"""Frame ranges whose last frame is compared with PyAV's."""
_COUNT: Final = {"in-order": 8, "random": 24}
_LENGTH: Final = {"in-order": 32, "random": 1}
"""Frames per range."""
_GOLDEN_RATIO: Final = 0.618_033_988_749_895


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(BenchmarkConfig):
    """Options of `bench decode`."""

    access: Annotated[
        Access, Option("Read runs of 32 frames from a keyframe, or single frames at random.")
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
    """Reason it was skipped, in two words; None: it was timed."""
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


Pictures: TypeAlias = Sequence[Array]
"""Last frame of each range that is compared."""
Read: TypeAlias = Callable[[GopRange], Iterator[Array]]
"""Yields the frames of a range, uint8 [H, W, 3], RGB, on the CPU."""


def methods(gpu: int) -> dict[str, DecoderConfig | None]:
    """Return all decoders, the reference first; None: a decoder that headrace does not use."""
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
        text = "decord is not installed (pip install decord)"
        return {"status": "not installed", "why_not": text}
    if decoding is not None:
        try:
            capabilities_of(decoding)
        except BackendError as error:
            is_missing = isinstance(error.__cause__, ImportError)
            status = "not installed" if is_missing else "not usable"
            return {"status": status, "why_not": str(error)}
    count = torch.cuda.device_count()
    if _device_of(decoding) == "GPU" and gpu >= count:
        seen_gpus = f"{count} of them" if count else "no NVIDIA GPU"
        text = f"it needs GPU {gpu}, and PyTorch {torch.__version__} sees {seen_gpus} here"
        return {"status": "no GPU", "why_not": text}
    return {}


def _announce(config: DecodeConfig) -> str:
    """Return the estimated time as text."""
    num_methods = len(methods(config.gpu))
    total = num_methods * config.repeats + 1
    return (
        f"Up to {num_methods} decoders, {total} repetitions of {config.seconds:g} s, after "
        "all frames were compared."
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
    stretches = stretches_of(indexes, config.access)
    records: list[MethodRecord] = []
    variants: dict[str, Work] = {}
    expected: Pictures = ()
    tried = methods(config.gpu)
    with ExitStack() as stack:
        for number, (name, decoding) in enumerate(tried.items()):
            context.on_progress(f"{name}, compared", number, len(tried))
            fields = why_not(decoding, config.gpu) if number else {}
            if not fields:
                with ExitStack() as opened:
                    try:
                        read = _open_readers(decoding, indexes, opened)
                        pictures = last_pictures(read, stretches)
                        expected = expected or pictures
                        fields = _compare_pictures(pictures, expected)
                    except (BackendError, MediaError) as error:
                        if not expected:
                            raise
                        fields = {"status": "refused", "why_not": str(error)}
                    if "status" not in fields:
                        stack.push(opened.pop_all())
                        variants[name] = for_seconds(
                            stretches,
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


def _compare_pictures(pictures: Pictures, expected: Pictures) -> dict[str, object]:
    """Return record fields with the difference from the reference frames."""
    differences = [  # None where they differ in size
        PixelDifference.between(picture, reference_picture)
        for picture, reference_picture in zip(pictures, expected, strict=True)
    ]
    known = [difference for difference in differences if difference is not None]
    fields: dict[str, object] = {
        "compared": len(differences),
        "mean_apart": max((difference.mean for difference in known), default=0.0),
        "most_apart": max((difference.most for difference in known), default=0),
    }
    wrong = sum(difference is None or not difference.is_equal for difference in differences)
    if wrong:
        text = f"{wrong} of {len(differences)} pictures are not those of PyAV"
        fields |= {"status": "differs", "why_not": text}
    return fields


def stretches_of(indexes: Sequence[StreamIndex], access: Access) -> tuple[GopRange, ...]:
    """Return the ranges that every decoder reads: spread over all videos, deterministic."""
    stretches = []
    for draw in range(_COUNT[access]):
        video = draw % len(indexes)
        index = indexes[video]
        start = int((draw + 1) * _GOLDEN_RATIO % 1 * len(index))
        if access == "in-order":
            start, _ = index.gop_range(index.gop_of(start))
        wanted = range(start, min(len(index), start + _LENGTH[access]))
        stretches.append(GopRange(video=video, index=index, wanted=tuple(wanted)))
    return tuple(stretches)


def _open_readers(
    decoding: DecoderConfig | None, indexes: Sequence[StreamIndex], stack: ExitStack
) -> Read:
    """Open all videos in this thread, one decoder each, until the end of `stack`.

    Raises:
        BackendError, MediaError: the decoder cannot open or decode a video.
    """
    if decoding is None:
        readers = [_decord_reader(index) for index in indexes]
        return lambda stretch: readers[stretch.video](stretch.wanted)
    decoders = [
        stack.enter_context(closing(open_decoder(index, None, decoding))) for index in indexes
    ]
    return lambda stretch: (
        frame for _, frame in decoders[stretch.video].run(DecodeJob(stretch.wanted))
    )


def _count_frames(read: Read, stretch: GopRange) -> int:
    return sum(1 for _ in read(stretch))


def last_pictures(read: Read, stretches: Sequence[GopRange]) -> list[Array]:
    """Read every range once; return the last frame of 8 ranges."""
    every, pictures = max(1, len(stretches) // _HELD), list[Array]()
    for position, stretch in enumerate(stretches):
        [last] = deque(read(stretch), maxlen=1)
        pictures += [last] * (position % every == 0)
    return pictures


def _decord_reader(index: StreamIndex) -> Callable[[tuple[int, ...]], Iterator[Array]]:
    """Return a function that yields frames by index through decord.

    Raises:
        BackendError: decord cannot open the file, or counts another number of frames.
    """
    import decord

    problem = f"decord was asked for to decode {index.source}"
    try:
        reader = decord.VideoReader(str(index.source.path), ctx=decord.cpu(0), num_threads=1)
    except (RuntimeError, OSError, decord.DECORDError) as error:
        raise BackendError(f"{problem}: {str(error).partition(chr(10))[0]}") from error
    if len(reader) != len(index):
        raise BackendError(f"{problem}: it counts {len(reader)} frames, and there are {len(index)}")

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
            yield f"{row.variant}, by which headrace does not decode: {rate} frames/s."
        if row.facts.status is not None:
            yield f"{row.variant} was skipped: {row.facts.why_not.rstrip('.')}."
    others = [row.facts for row in rows[1:] if row.repetitions]
    if others:
        furthest = max(others, key=lambda method: method.mean_apart)
        yield (
            f"{counted(furthest.compared, 'picture')} of each method that was timed were held "
            f"against PyAV's before: apart by {decimal(furthest.mean_apart)} levels of 255 in the "
            f"mean at most, of one number by {max(method.most_apart for method in others)}."
        )
    if record.videos == MOST_VIDEOS:
        yield f"At most {MOST_VIDEOS} videos are read, from all over what was given."


def _headline(record: DecodeRecord, rows: Rows[MethodRecord], ranking: Ranking) -> str:
    reason = ranking.noise.cpu_time_reason
    ours = [row for row in rows if row.repetitions and row.facts.is_ours]
    if not reason or any(row.facts.device == "GPU" for row in ours):
        return ranking.headline()
    ours.sort(key=lambda row: row.cpu_ms)
    spent = ", ".join(f"{row.variant} {decimal(row.cpu_ms)} ms" for row in ours)
    return f"CPU time of a frame, the least first: {spent}. {reason}"


DECODE: Final = VariantBenchmark(
    name="decode",
    summary="Time decoding by each backend: PyAV, torchcodec, NVDEC, PyNvVideoCodec, decord.",
    config=DecodeConfig,
    record=DecodeRecord,
    prepare=_prepare,
    title=lambda record: (
        f"Decoding {counted(record.videos, 'video')} ({', '.join(record.codecs)}), up to "
        f"{record.size[0]}x{record.size[1]}, frames "
        f"{'in order' if record.access == 'in-order' else 'anywhere'}"
    ),
    reading=lambda record, rows: (
        "One decoder in one thread, whole frames as RGB in main memory, so that what a GPU decodes "
        "comes down; FPS are medians over the repetitions. CPU ms is the processor time of a "
        "frame, more than its time where a library takes several threads. Diff is the mean "
        "difference from PyAV's pixels, in levels of 255. Files are open and checked before "
        "anything is timed."
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
    rates=("Frames per second by method", "The same frames by each method that runs here."),
    announce=_announce,
    terms=SuiteSpec(concerns="decode", seconds=40),
).benchmark()
