"""How many pictures, how large and how long, from a few that are made and thrown away."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder, open_index
from headrace.decode.protocol import DecodeJob
from headrace.errors import MediaError
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions, pictures_of
from headrace.extraction.pictures import Pictures
from headrace.extraction.request import Request
from headrace.extraction.speaker import chunks_to_do
from headrace.extraction.workers import Work, work_through
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.shape import FrameShape
from headrace.video.source import Source

_SAMPLES: Final = 6
_SECONDS: Final = 5.0
"""After which no further sample is begun."""


@dataclass(frozen=True, kw_only=True)
class _Sample:
    num_bytes: int
    pixels: int
    """Of the picture."""
    encode_seconds: float
    decoded_pixels: int
    """Pixels that were decoded for it."""
    decode_seconds: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What an extraction would come to. Estimates are None where no sample could be made."""

    videos: int
    frames: int
    """Pictures, damage aside: exact."""
    samples: int
    """Pictures that were made to estimate the rest."""
    num_bytes: int | None
    """Of all pictures: their mean per pixel in the samples, times all pixels."""
    least_bytes: int | None
    most_bytes: int | None
    """Of a picture, among the samples."""
    seconds: float | None
    """By what decoding and encoding the samples took, shared out over the workers."""
    workers: int
    failures: tuple[str, ...] = ()
    """What ended the process that made a sample, in words."""


def forecast(
    plan: FramePlan,
    options: FrameOptions,
    store: IndexStore,
    *,
    workers: int,
    function: ChildFunction,
    clock: Clock,
) -> Forecast:
    """Return what would come; makes up to 6 pictures, of frames all over the plan.

    They are made in a child process: one that ends it is left out.

    Args:
        plan: What would be done.
        options: That the plan is of.
        store: Where the indexes are kept.
        workers: Processes that would do it.
        function: What the child runs.
        clock: Measures how long nothing comes.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    samples, failures = _samples(plan, options, store, function, clock)
    pictures = options.pictures
    return Forecast(
        videos=len(plan.indexes),
        frames=plan.frames,
        samples=len(samples),
        num_bytes=round(_all_bytes(plan, pictures, samples)) if samples else None,
        least_bytes=min((sample.num_bytes for sample in samples), default=None),
        most_bytes=max((sample.num_bytes for sample in samples), default=None),
        seconds=_all_seconds(plan, pictures, samples) / workers if samples else None,
        workers=workers,
        failures=failures,
    )


def make_samples(argument: Json, send: Callable[[Json], None]) -> Json:
    """Make pictures of single frames, and say what each took: a `ChildFunction`."""
    assert isinstance(argument, dict)
    pictures = pictures_of(Request.parse(str(argument["request"])))
    store, clock = IndexStore(Path(str(argument["store"]))), SYSTEM_CLOCK
    began_ns = clock.now_ns()
    for speaker in chunks_to_do(argument, send):
        if clock.now_ns() - began_ns > _SECONDS * 1e9:
            continue
        assert isinstance(speaker.told, list)
        path, number = speaker.told
        try:
            made = _sample(Path(str(path)), store, pictures, int(str(number)), clock)
        except MediaError:
            continue
        speaker.say(asdict(made))
    return None


def _samples(
    plan: FramePlan,
    options: FrameOptions,
    store: IndexStore,
    function: ChildFunction,
    clock: Clock,
) -> tuple[list[_Sample], tuple[str, ...]]:
    places = np.unique(np.linspace(0, plan.frames - 1, _SAMPLES).round().astype(int))
    told: dict[str, Json] = {
        f"{video:05d}-{number:08d}": [plan.request.videos[video].path, number]
        for video, number in _frames_at(plan, places.tolist())
    }
    found: list[_Sample] = []

    def hear(worker: str, name: str, said: Json) -> None:
        assert isinstance(said, dict)
        found.append(_Sample(**said))  # type: ignore[arg-type]

    with TemporaryDirectory(prefix="headrace-") as claims:
        argument: dict[str, Json] = {
            "request": plan.request.text(),
            "store": str(store.folder.absolute()),
        }
        work = Work(
            function=function,
            argument=argument,
            claims=Path(claims),
            workers=1,
            stall_seconds=options.stall_seconds,
        )
        outcome = work_through(work, told, on_said=hear, clock=clock)
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    return found, tuple(_failure(told[name], why) for name, why in outcome.fallen.items())


def _failure(told: Json, why: str) -> str:
    assert isinstance(told, list)
    return f"a sample of {told[0]}, frame {told[1]}, could not be made: {why}"


def _frames_at(plan: FramePlan, places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield video and index of the wanted frames at these places among all, ascending."""
    before = 0
    for video, wanted in plan.wanted.items():
        here = [place - before for place in places if 0 <= place - before < len(wanted)]
        yield from ((video, int(wanted[place])) for place in here)
        before += len(wanted)


def _sample(
    path: Path, store: IndexStore, pictures: Pictures, number: int, clock: Clock
) -> _Sample:
    index = open_index(Source(path), store)
    height, width = index.info.upright_size
    with closing(open_decoder(index, FrameShape(size=pictures.size))) as decoder:
        began_ns = clock.now_ns()
        [(_, frame)] = decoder.run(DecodeJob((number,), goes_on=False))
        decoded_ns = clock.now_ns()
        file = pictures.encode(frame)
        encoded_ns = clock.now_ns()
        return _Sample(
            num_bytes=len(file),
            pixels=frame.shape[0] * frame.shape[1],
            encode_seconds=(encoded_ns - decoded_ns) / 1e9,
            decoded_pixels=decoder.counters.frames_decoded * height * width,
            decode_seconds=(decoded_ns - began_ns) / 1e9,
        )


def _written_pixels(plan: FramePlan, pictures: Pictures) -> float:
    sizes = {n: pictures.size or index.info.upright_size for n, index in plan.indexes.items()}
    return float(sum(sizes[c.video][0] * sizes[c.video][1] * c.frames for c in plan.chunks))


def _all_bytes(plan: FramePlan, pictures: Pictures, samples: list[_Sample]) -> float:
    pixels = sum(sample.pixels for sample in samples)
    return sum(sample.num_bytes for sample in samples) / pixels * _written_pixels(plan, pictures)


def _all_seconds(plan: FramePlan, pictures: Pictures, samples: list[_Sample]) -> float:
    sizes = {number: index.info.upright_size for number, index in plan.indexes.items()}
    decoded = sum(sizes[c.video][0] * sizes[c.video][1] * c.decoded for c in plan.chunks)
    per_pixel = sum(s.decode_seconds for s in samples) / sum(s.decoded_pixels for s in samples)
    encoding = sum(s.encode_seconds for s in samples) / sum(s.pixels for s in samples)
    return decoded * per_pixel + _written_pixels(plan, pictures) * encoding
