"""How fast each backend decodes one's own videos here, on the CPU and on a GPU."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.config import BenchmarkConfig, Repeats, TurnSeconds, indexes_of
from headrace.bench.suite.suite_spec import Terms
from headrace.bench.variant_benchmark import (
    NOT_TIMED,
    Ranking,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantRow,
    VariantSet,
    Work,
    figure,
    for_seconds,
)
from headrace.errors import BackendError, MediaError
from headrace.measuring.config_fields import Option
from headrace.profiling.findings.finding import Change
from headrace.profiling.provenance import Record
from headrace.report.experiment import Column
from headrace.report.numbers import counted, decimal

if TYPE_CHECKING:
    from headrace.bench.decode_variants import Method, Pictures, Reader, Stretch
    from headrace.decode.tolerance import Apart
    from headrace.video.stream_index import StreamIndex

MOST_VIDEOS: Final = 8
"""Videos that are read: each method holds all of them open."""
_BY_TORCHCODEC: Final = 'decoding=Decoding(backend="torchcodec"'
_CHANGES: Final = {
    "torchcodec CPU": Change(words=f"{_BY_TORCHCODEC}) of loaders and readers"),
    "torchcodec CUDA": Change(words=f'{_BY_TORCHCODEC}, device="cuda:0") of loaders and readers'),
    "PyNvVideoCodec": Change(
        words='decoding=Decoding(backend="pynvvideocodec", device="cuda:0") of loaders and readers'
    ),
    "NVDEC": Change(words="gpu=0 of loaders, decoding=Decoding.on_gpu(0) of readers"),
}


_Fields: TypeAlias = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(BenchmarkConfig):
    """What is measured."""

    access: Annotated[
        Literal["in-order", "random"],
        Option("Stretches of 32 frames from a keyframe on, or single frames anywhere."),
    ] = "in-order"
    gpu: Annotated[int, Option("Number of the NVIDIA GPU.", least=0)] = 0
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3


class MethodRecord(Record):
    """One method: what its pictures are beside PyAV's, or why it was not timed."""

    way: str
    device: Literal["CPU", "GPU"]
    is_ours: bool
    """Whether headrace can decode that way."""
    status: str | None = None
    """Why it was not timed, in a word or two; None: it was."""
    why_not: str = ""
    """The same in full."""
    compared: NonNegativeInt = 0
    """Pictures that were held against PyAV's before anything was timed."""
    mean_apart: NonNegativeFloat = 0.0
    """Levels of 255, the picture that is furthest."""
    most_apart: NonNegativeInt = 0
    """The number that is furthest."""


class DecodeRecord(VariantRecord):
    """What was measured."""

    videos: PositiveInt
    """That were read."""
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the largest."""
    codecs: tuple[str, ...]
    access: Literal["in-order", "random"]
    methods: tuple[MethodRecord, ...]
    """All there are; PyAV first."""


def _announce(config: DecodeConfig) -> str:
    """Return how long it can take."""
    from headrace.bench.decode_variants import methods

    most = len(methods(config.gpu))
    turns = most * config.repeats + 1
    return (
        f"Up to {most} ways to decode, {turns} turns of {config.seconds:g} s, after all frames "
        "were compared."
    )


@contextmanager
def _prepared(config: DecodeConfig, context: Context) -> Iterator[VariantSet[DecodeRecord]]:
    """Hold the pictures of every method that runs here against PyAV's.

    Raises:
        ConfigError: a video has no length.
        MediaError: a video cannot be opened, or PyAV cannot decode what is read of it.
    """
    from headrace.bench.decode_variants import Reader, last_pictures, methods, stretches_of

    tried = methods(config.gpu)
    indexes = indexes_of(_spread(config.videos), context.store)
    stretches = stretches_of(indexes, config.access)
    records: list[MethodRecord] = []
    variants: dict[str, Work] = {}
    expected: Pictures = ()
    with ExitStack() as stack:
        for number, method in enumerate(tried):
            context.on_progress(f"{method.way}, compared", number, len(tried))
            reader: Reader | None
            if number == 0:
                reader = stack.enter_context(Reader(method, indexes))
                expected = last_pictures(reader, stretches)
                fields: _Fields = {"compared": sum(each.size > 0 for each in expected)}
            else:
                fields, reader = _tried(method, indexes, stretches, expected, config.gpu, stack)
            known = {"way": method.way, "device": method.device, "is_ours": bool(method.decoding)}
            records.append(MethodRecord.model_validate(known | fields))
            if reader is not None:
                variants[method.way] = for_seconds(
                    stretches, reader.count, seconds=config.seconds, clock=context.clock
                )
        sizes = [index.info.upright_size for index in indexes]
        yield VariantSet(
            variants=variants,
            record=partial(
                DecodeRecord,
                videos=len(indexes),
                size=max(sizes, key=lambda size: size[0] * size[1]),
                codecs=tuple(dict.fromkeys(index.info.codec for index in indexes)),
                access=config.access,
                methods=tuple(records),
            ),
        )


def _spread(videos: Sequence[str]) -> list[str]:
    """Return as many as are read, from all over what was given."""
    count = min(MOST_VIDEOS, len(videos))
    return [videos[number * len(videos) // count] for number in range(count)]


def _tried(
    method: "Method",
    indexes: "Sequence[StreamIndex]",
    stretches: "Sequence[Stretch]",
    expected: "Pictures",
    gpu: int,
    stack: ExitStack,
) -> "tuple[_Fields, Reader | None]":
    """Return fields of the method's record, and what reads by it if it gives the same pictures."""
    from headrace.bench.decode_variants import Reader, compared, last_pictures, why_not

    if (reason := why_not(method, gpu)) is not None:
        status, words = reason
        return {"status": status, "why_not": words}, None
    with ExitStack() as opened:
        try:
            reader = opened.enter_context(Reader(method, indexes))
            found = compared(last_pictures(reader, stretches), expected)
        except (BackendError, MediaError) as error:
            return {"status": "refused", "why_not": str(error)}, None
        fields = _furthest(found)
        if "status" in fields:
            return fields, None
        stack.push(opened.pop_all())
    return fields, reader


def _furthest(found: "Sequence[Apart | None]") -> _Fields:
    """Return the fields of a record that hold how far pictures are apart."""
    known = [apart for apart in found if apart is not None]
    fields: _Fields = {
        "compared": len(found),
        "mean_apart": max((apart.mean for apart in known), default=0.0),
        "most_apart": max((apart.most for apart in known), default=0),
    }
    wrong = sum(apart is None or not apart.is_same for apart in found)
    if wrong:
        why = f"{wrong} of {len(found)} pictures are not those of PyAV"
        fields |= {"status": "differs", "why_not": why}
    return fields


def _evidence(record: DecodeRecord, rows: Rows[MethodRecord], ranking: Ranking) -> Iterator[str]:
    for row in rows:
        if row.turns and not row.facts.is_ours:
            rate = decimal(row.rate.median)
            yield f"{row.variant}, by which headrace does not decode: {rate} frames/s."
        if row.facts.status is not None:
            yield f"{row.variant} was not timed: {row.facts.why_not.rstrip('.')}."
    others = [row.facts for row in rows[1:] if row.turns]
    if others:
        furthest = max(others, key=lambda method: method.mean_apart)
        yield (
            f"{counted(furthest.compared, 'picture')} of each method that was timed were held "
            f"against PyAV's before: apart by {decimal(furthest.mean_apart)} levels of 255 in the "
            f"mean at most, of one number by {max(method.most_apart for method in others)}."
        )
    if record.videos == MOST_VIDEOS:
        yield f"At most {MOST_VIDEOS} videos are read, from all over what was given."


def _cpu_ms(row: VariantRow[MethodRecord]) -> float:
    """Return the processor time of a frame, milliseconds, the median turn.

    More than `ms` where a library works in several threads, less where a GPU does the work.
    """
    return median(1e3 * turn.cpu_seconds / turn.amount for turn in row.turns)


def _apart(row: VariantRow[MethodRecord]) -> str:
    return decimal(row.facts.mean_apart) if row.facts.compared else NOT_TIMED


DECODE: Final = VariantBenchmark(
    name="decode",
    summary="Time decoding by each backend: PyAV, torchcodec, NVDEC, PyNvVideoCodec, decord.",
    config=DecodeConfig,
    record=DecodeRecord,
    prepare=_prepared,
    title=lambda record: (
        f"Decoding {counted(record.videos, 'video')} ({', '.join(record.codecs)}), up to "
        f"{record.size[0]}x{record.size[1]}, frames "
        f"{'in order' if record.access == 'in-order' else 'anywhere'}"
    ),
    reading=lambda record, rows: (
        "One decoder in one thread, whole frames as RGB in main memory, so that what a GPU decodes "
        "comes down; FPS are medians over the turns. CPU ms is the processor time of a frame, more "
        "than its time where a library takes several threads. Apart is how far pictures are from "
        "PyAV's, in levels of 255. Files are open and checked before anything is timed."
    ),
    head="method",
    facts=lambda record: {method.way: method for method in record.methods},
    columns=(
        Column("method", lambda row: row.variant),
        figure("mean decode ms", lambda row: row.ms.median),
        figure("FPS", lambda row: row.rate.median),
        figure("CPU ms", _cpu_ms),
        figure("slowest", lambda row: row.rate.lowest),
        figure("fastest", lambda row: row.rate.highest),
        Column("apart", _apart),
        Column("not timed", lambda row: row.facts.status or NOT_TIMED),
    ),
    ranks=lambda row: row.facts.is_ours,
    changes=lambda record: _CHANGES,
    evidence=_evidence,
    rates=("Frames per second by method", "The same frames by each method that runs here."),
    announce=_announce,
    terms=Terms(concerns="decode", seconds=40),
).benchmark()
