"""How many pictures, how large and how long, from a few that are made and thrown away."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.errors import MediaError
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.pictures import Pictures
from headrace.runtime.clock import Clock
from headrace.video.shape import FrameShape

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


def forecast(plan: FramePlan, pictures: Pictures, workers: int, clock: Clock) -> Forecast:
    """Return what would come; makes up to 6 pictures, of frames all over the plan."""
    samples = _samples(plan, pictures, clock)
    return Forecast(
        videos=len(plan.indexes),
        frames=plan.frames,
        samples=len(samples),
        num_bytes=round(_all_bytes(plan, pictures, samples)) if samples else None,
        least_bytes=min((sample.num_bytes for sample in samples), default=None),
        most_bytes=max((sample.num_bytes for sample in samples), default=None),
        seconds=_all_seconds(plan, pictures, samples) / workers if samples else None,
        workers=workers,
    )


def _samples(plan: FramePlan, pictures: Pictures, clock: Clock) -> list[_Sample]:
    began_ns, found = clock.now_ns(), []
    places = np.unique(np.linspace(0, plan.frames - 1, _SAMPLES).round().astype(int))
    for video, number in _frames_at(plan, places.tolist()):
        if clock.now_ns() - began_ns > _SECONDS * 1e9:
            break
        try:
            found.append(_sample(plan, pictures, video, number, clock))
        except MediaError:
            continue
    return found


def _frames_at(plan: FramePlan, places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield video and index of the wanted frames at these places among all, ascending."""
    before = 0
    for video, wanted in plan.wanted.items():
        here = [place - before for place in places if 0 <= place - before < len(wanted)]
        yield from ((video, int(wanted[place])) for place in here)
        before += len(wanted)


def _sample(plan: FramePlan, pictures: Pictures, video: int, number: int, clock: Clock) -> _Sample:
    index = plan.indexes[video]
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
