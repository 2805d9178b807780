"""How many pictures, how large and how long, from a few that are made and thrown away."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.decode.decoding import Decoding
from headrace.decode.protocol import DecodeJob
from headrace.extraction.decoders import Decoders
from headrace.extraction.extraction import Extraction
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions, pictures_of
from headrace.extraction.pictures import Pictures
from headrace.extraction.trial import Sample, Trial, do_samples, request_told
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

_SAMPLES: Final = 6


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


def forecast(extraction: Extraction[FrameOptions, FramePlan], function: ChildFunction) -> Forecast:
    """Return what would come; makes up to 6 pictures, of frames all over the plan.

    They are made in a child process: one that ends it is left out.

    Args:
        extraction: What would be done.
        function: What the child runs.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    plan, workers = extraction.plan, extraction.workers
    at = {
        f"{video:05d}-{number:08d}": (plan.request.videos[video], number)
        for video, number in _samples_of(plan)
    }
    told: dict[str, Json] = {
        name: [asked.path, number, asked.rate] for name, (asked, number) in at.items()
    }
    trial = Trial.of(extraction, told, function, more={"decode": extraction.options.decode})
    given = extraction.options.pictures.size
    sizes = {number: index.info.upright_size for number, index in plan.indexes.items()}
    pixels = sum(_pixels(given or sizes[chunk.video]) * chunk.frames for chunk in plan.chunks)
    decoded = sum(_pixels(sizes[chunk.video]) * chunk.decoded for chunk in plan.chunks)
    seconds = trial.seconds(pixels, decoded)
    return Forecast(
        videos=len(plan.indexes),
        frames=plan.frames,
        samples=len(trial.samples),
        num_bytes=trial.num_bytes(pixels),
        least_bytes=min((sample.num_bytes for sample in trial.samples), default=None),
        most_bytes=max((sample.num_bytes for sample in trial.samples), default=None),
        seconds=None if seconds is None else seconds / workers,
        workers=workers,
        failures=tuple(
            f"a sample of {at[name][0].path}, frame {at[name][1]}, could not be made: {why}"
            for name, why in trial.fallen.items()
        ),
    )


def make_samples(argument: Json, send: Callable[[Json], None]) -> Json:
    """Make pictures of single frames, and say what each took: a `ChildFunction`."""
    assert isinstance(argument, dict)
    pictures = pictures_of(request_told(argument))
    decoders = Decoders(Decoding.named(str(argument["decode"])))
    do_samples(argument, send, lambda index, number: _sample(index, pictures, number, decoders))
    return None


def _samples_of(plan: FramePlan) -> Iterator[tuple[int, int]]:
    """Yield video and index of wanted frames all over the plan, ascending."""
    places = np.unique(np.linspace(0, plan.frames - 1, _SAMPLES).round().astype(int)).tolist()
    before = 0
    for video, wanted in plan.wanted.items():
        here = [place - before for place in places if 0 <= place - before < len(wanted)]
        yield from ((video, int(wanted[place])) for place in here)
        before += len(wanted)


def _sample(index: StreamIndex, pictures: Pictures, number: int, decoders: Decoders) -> Sample:
    clock = SYSTEM_CLOCK
    with closing(decoders.open(index, FrameShape(size=pictures.size))) as decoder:
        began_ns = clock.now_ns()
        [(_, frame)] = decoder.run(DecodeJob((number,), goes_on=False))
        decoded_ns = clock.now_ns()
        file = pictures.encode(frame)
        encoded_ns = clock.now_ns()
        return Sample(
            frames=1,
            num_bytes=len(file),
            pixels=frame.shape[0] * frame.shape[1],
            encode_seconds=(encoded_ns - decoded_ns) / 1e9,
            decoded_pixels=decoder.counters.frames_decoded * _pixels(index.info.upright_size),
            decode_seconds=(decoded_ns - began_ns) / 1e9,
        )


def _pixels(size: tuple[int, int]) -> int:
    return size[0] * size[1]
