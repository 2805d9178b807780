"""How large proxies will be and how long they take, from a few stretches that are thrown away."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from headrace.decode.open import open_decoder
from headrace.extraction.extraction import Extraction
from headrace.extraction.proxies.making import PARTS, make_proxy
from headrace.extraction.proxies.plan import ProxyPlan
from headrace.extraction.proxies.request import ProxyOptions, Recipe
from headrace.extraction.step_watch import StepWatch
from headrace.extraction.trial import Sample, Trial, do_samples, request_told
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

_SAMPLES: Final = 4
_FRAMES: Final = 64
"""Of a sample, at most."""


@dataclass(frozen=True, kw_only=True)
class ProxyForecast:
    """What proxies would come to. Estimates are None where no sample could be made."""

    videos: int
    frames: int
    original_bytes: int
    samples: int
    """Frames that were made to estimate the rest."""
    num_bytes: int | None
    """Of all proxies: their mean per pixel in the samples, times all pixels."""
    seconds: float | None
    """By what the samples took, shared out over the workers."""
    workers: int
    failures: tuple[str, ...] = ()
    """What ended the process that made a sample, in words."""


def forecast(
    extraction: Extraction[ProxyOptions, ProxyPlan], function: ChildFunction
) -> ProxyForecast:
    """Return what would come; makes up to 4 stretches of 64 frames, of videos all over the plan.

    They are made in a child process, in a temporary folder: one that ends it is left out.

    Args:
        extraction: What would be done.
        function: What the child runs.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    plan, workers = extraction.plan, extraction.workers
    places = np.unique(np.linspace(0, len(plan.chunks) - 1, _SAMPLES).round().astype(int))
    chunks = [plan.chunks[place] for place in places.tolist()]
    paths = {chunk.name: plan.request.videos[chunk.video].path for chunk in chunks}
    told: dict[str, Json] = {
        chunk.name: [paths[chunk.name], _first(plan.indexes[chunk.video]), None] for chunk in chunks
    }
    trial = Trial.of(extraction, told, function)
    indexes = list(plan.indexes.values())
    sizes = [(index.info.upright_size, len(index)) for index in indexes]
    made = sum(_pixels(extraction.options.size.of(size)) * frames for size, frames in sizes)
    seconds = trial.seconds(made, sum(_pixels(size) * frames for size, frames in sizes))
    return ProxyForecast(
        videos=len(indexes),
        frames=plan.frames,
        original_bytes=sum(index.fingerprint.size for index in indexes),
        samples=sum(sample.frames for sample in trial.samples),
        num_bytes=trial.num_bytes(made),
        seconds=None if seconds is None else seconds / workers,
        workers=workers,
        failures=tuple(
            f"a sample of {paths[name]} could not be made: {why}"
            for name, why in trial.fallen.items()
        ),
    )


def make_samples(argument: Json, send: Callable[[Json], None]) -> Json:
    """Make short stretches of proxies, and say what each took: a `ChildFunction`."""
    assert isinstance(argument, dict)
    recipe = Recipe.of(request_told(argument))
    path = Path(str(argument["claims"])) / "sample.mp4"
    do_samples(argument, send, lambda index, first: _sample(index, recipe, path, first))
    return None


def _first(index: StreamIndex) -> int:
    """Return the keyframe in the middle: many videos begin in black."""
    return int(index.gop_start[index.num_gops // 2]) if index.num_gops > 1 else 0


def _sample(index: StreamIndex, recipe: Recipe, out: Path, first: int) -> Sample:
    upright = index.info.upright_size
    size = recipe.size.of(upright)
    spent = dict.fromkeys(PARTS, 0.0)

    def hear(said: Any) -> None:
        work: Mapping[str, float] = said["step"]["work_ms"]
        for part, milliseconds in work.items():
            spent[part] += milliseconds / 1e3

    wanted = np.arange(first, min(first + _FRAMES, len(index)))
    watch = StepWatch(0, hear, SYSTEM_CLOCK, parts=PARTS)
    with closing(open_decoder(index, FrameShape(size=size, layout="yuv420"))) as decoder:
        make_proxy(decoder, recipe, out, watch, wanted)
        decoded = decoder.counters.frames_decoded
    return Sample(
        frames=len(wanted),
        num_bytes=out.stat().st_size,
        pixels=_pixels(size) * len(wanted),
        encode_seconds=spent["encode"] + spent["compare"],
        decoded_pixels=max(1, decoded) * _pixels(upright),
        decode_seconds=spent["decode"],
    )


def _pixels(size: tuple[int, int]) -> int:
    return size[0] * size[1]
