"""How fast each backend decodes one's own videos here, on the CPU and on a GPU."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.contest import ContestRecord, Way, hold_contest
from headrace.bench.model_choice import Repeats, TurnSeconds, indexes_of
from headrace.errors import BackendError, MediaError
from headrace.measuring.config_fields import Option, Videos, check_options
from headrace.profiling.provenance import Record

if TYPE_CHECKING:
    from headrace.bench.decode_variants import Method, Pictures, Reader, Stretch
    from headrace.decode.tolerance import Apart
    from headrace.video.stream_index import StreamIndex

MOST_VIDEOS: Final = 8
"""Videos that are read: each method holds all of them open."""


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """What is measured."""

    videos: Videos
    access: Annotated[
        Literal["in-order", "random"],
        Option("Stretches of 32 frames from a keyframe on, or single frames anywhere."),
    ] = "in-order"
    gpu: Annotated[int, Option("Number of the NVIDIA GPU.", least=0)] = 0
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)


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


class DecodeRecord(ContestRecord):
    """What was measured."""

    videos: PositiveInt
    """That were read."""
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the largest."""
    codecs: tuple[str, ...]
    access: Literal["in-order", "random"]
    methods: tuple[MethodRecord, ...]
    """All there are; PyAV first."""


def announce(config: DecodeConfig) -> str:
    """Say how long it can take."""
    from headrace.bench.decode_variants import methods

    most = len(methods(config.gpu))
    turns = most * config.repeats + 1
    return (
        f"Up to {most} ways to decode, {turns} turns of {config.seconds:g} s, after all frames "
        "were compared."
    )


def measure_decode(config: DecodeConfig, context: Context) -> DecodeRecord:
    """Hold the pictures of every method that runs here against PyAV's, then time all in turns.

    Raises:
        ConfigError: a video has no length.
        MediaError: a video cannot be opened, or PyAV cannot decode what is read of it.
    """
    from headrace.bench.decode_variants import (
        Reader,
        last_pictures,
        methods,
        reading,
        stretches_of,
    )

    made = context.provenance(config)
    known = methods(config.gpu)
    indexes = indexes_of(_spread(config.videos), context.store)
    stretches = stretches_of(indexes, config.access)
    told: list[MethodRecord] = []
    ways: dict[str, Way] = {}
    expected: Pictures = ()
    with ExitStack() as stack:
        for number, method in enumerate(known):
            context.on_progress(f"{method.way}, compared", number, len(known))
            if number == 0:
                reader: Reader | None = stack.enter_context(Reader(method, indexes))
                assert reader is not None
                expected = last_pictures(reader, stretches)
                said = _record(method, compared=sum(each.size > 0 for each in expected))
            else:
                said, reader = _tried(method, indexes, stretches, expected, config.gpu, stack)
            told.append(said)
            if reader is not None:
                ways[method.way] = reading(reader, stretches, config.seconds, context.clock)
        turns = hold_contest(ways, repeats=config.repeats, context=context)
    sizes = [index.info.upright_size for index in indexes]
    return DecodeRecord(
        provenance=made,
        turns=turns,
        videos=len(indexes),
        size=max(sizes, key=lambda size: size[0] * size[1]),
        codecs=tuple(dict.fromkeys(index.info.codec for index in indexes)),
        access=config.access,
        methods=tuple(told),
    )


def _spread(videos: Sequence[str]) -> list[str]:
    """Return as many as are read, from all over what was given."""
    count = min(MOST_VIDEOS, len(videos))
    return [videos[number * len(videos) // count] for number in range(count)]


def _record(method: "Method", **fields: object) -> MethodRecord:
    known = {"way": method.way, "device": method.device, "is_ours": method.decoding is not None}
    return MethodRecord.model_validate(known | fields)


def _tried(
    method: "Method",
    indexes: "Sequence[StreamIndex]",
    stretches: "Sequence[Stretch]",
    expected: "Pictures",
    gpu: int,
    stack: ExitStack,
) -> "tuple[MethodRecord, Reader | None]":
    """Return what becomes of a method, and what reads by it where it gives the same pictures."""
    from headrace.bench.decode_variants import Reader, compared, last_pictures, why_not

    if (reason := why_not(method, gpu)) is not None:
        status, words = reason
        return _record(method, status=status, why_not=words), None
    with ExitStack() as opened:
        try:
            reader = opened.enter_context(Reader(method, indexes))
            found = compared(last_pictures(reader, stretches), expected)
        except (BackendError, MediaError) as error:
            return _record(method, status="refused", why_not=str(error)), None
        said = _record(method, **_furthest(found))
        if said.status is not None:
            return said, None
        stack.push(opened.pop_all())
    return said, reader


def _furthest(found: "Sequence[Apart | None]") -> dict[str, object]:
    """Return the fields of a record that tell how far pictures are apart."""
    known = [apart for apart in found if apart is not None]
    fields: dict[str, object] = {
        "compared": len(found),
        "mean_apart": max((apart.mean for apart in known), default=0.0),
        "most_apart": max((apart.most for apart in known), default=0),
    }
    wrong = sum(apart is None or not apart.is_same for apart in found)
    if wrong:
        why = f"{wrong} of {len(found)} pictures are not those of PyAV"
        fields |= {"status": "differs", "why_not": why}
    return fields
