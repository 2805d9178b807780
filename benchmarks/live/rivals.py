"""headrace beside loops over OpenCV, each over RTSP: age of what is shown, and recovery."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.equality import Pictures, compare_picked
from benchmarks.live.clip import grey_thumbnails
from benchmarks.live.record import Part, Quantiles, Recovery, Rivals, Shown, Streaming
from benchmarks.live.recovering import recover
from benchmarks.live.serving import Served, serve
from benchmarks.record import origin
from benchmarks.runner import Ask, WorkerError

WAYS = ("headrace", "opencv_latest", "opencv_queue", "opencv_loop")
LEFT_OUT = {
    "roboflow inference 1.8.3": "its 190 packages, a PyTorch of its own among them, were not "
    "installed after three minutes"
}
_COMPARED = 300
"""Frames of the clip, from its start, that pictures are held against."""


@dataclass(frozen=True, kw_only=True)
class RivalsScale:
    """How much is measured."""

    ways: Sequence[str] = WAYS
    seconds: float = 12.0
    settling_seconds: float = 3.0
    """From the first picture, that do not count: probing ends, what was kept is caught up with."""
    cycles: int = 1
    """Stalls, and restarts, of each way but headrace."""
    model_ms: float = 100.0
    """Of the model that is too slow for 30 frames a second by three times."""
    max_staleness: str = "200ms"


def measure_rivals(
    clip: Path, scale: RivalsScale, ask: Ask, known: Sequence[Recovery] = ()
) -> Rivals:
    """Measure all; `known` are recoveries that were measured already, with more repeats."""
    reference = _reference(clip)
    meters: list[dict[str, float]] = []

    def streaming(model_ms: float, max_staleness: str | None) -> Streaming:
        asked = {
            "seconds": scale.seconds + scale.settling_seconds + 1,
            "model_seconds": model_ms / 1e3,
            "max_staleness": max_staleness,
        }
        shown = [_shown(way, clip, asked, reference, scale, ask, meters) for way in scale.ways]
        return Streaming(
            model_ms=model_ms,
            seconds=scale.seconds,
            settling_seconds=scale.settling_seconds,
            shown=tuple(shown),
        )

    made = origin(
        {
            "seconds": scale.seconds,
            "model_ms": scale.model_ms,
            "max_staleness": scale.max_staleness,
            "clip": clip.name,
        }
    )
    by_way = {each.way: each for each in known}
    keeping_up = streaming(0.0, None)
    overloaded = streaming(scale.model_ms, scale.max_staleness)
    for way in scale.ways:
        if way not in by_way:
            by_way[way], meter = recover(way, clip, scale.cycles, ask)
            meters += [meter] if meter else []
    return Rivals(
        provenance=made,
        others_share=Part.share_of(meters),
        keeping_up=keeping_up,
        overloaded=overloaded,
        recovery=tuple(by_way[way] for way in scale.ways),
        left_out=LEFT_OUT,
    )


def _shown(
    way: str,
    clip: Path,
    asked: Mapping[str, Any],
    reference: Pictures,
    scale: RivalsScale,
    ask: Ask,
    meters: list[dict[str, float]],
) -> Shown:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "pictures.npz"
        try:
            served = serve(clip, {"way": way, "pictures": str(place), **asked}, ask)
        except WorkerError as error:
            return Shown(way=way, failure=str(error))
        if not served.shown:
            return Shown(way=way, failure="it showed nothing")
        with np.load(place) as stored:
            numbers, pictures = stored["numbers"], stored["pictures"]
    meters.append(served.answer["meter"])
    in_reach = numbers < len(reference)
    requests = np.stack([np.zeros(in_reach.sum(), np.int64), numbers[in_reach]], axis=1)
    proof = compare_picked([reference], requests, pictures[in_reach])
    if not proof.holds:
        return Shown(way=way, failure=f"{proof.wrong} pictures are not the frames they say")
    return counted(way, served, scale.settling_seconds, proof.frames)


def counted(way: str, served: Served, settling_seconds: float, proved_frames: int) -> Shown:
    """Return what was shown, from so many seconds after the first picture on."""
    begin_ns = served.shown[0][0] + settling_seconds * 1e9
    kept = [(at, age) for at, age in served.ages_ms() if at >= begin_ns]
    passed = (kept[-1][0] - kept[0][0]) / 1e9 if len(kept) > 1 else 0.0
    return Shown(
        way=way,
        versions=served.answer["versions"],
        proved_frames=proved_frames,
        frames=len(kept),
        per_second=(len(kept) - 1) / passed if passed else 0.0,
        age_ms=Quantiles.of([age for _, age in kept]),
    )


def _reference(clip: Path) -> Pictures:
    """Thumbnails of the first frames, decoded plainly; grey, as those of the ways."""
    found = []
    with av.open(str(clip)) as container:
        for frame in container.decode(video=0):
            picture: NDArray[Any] = frame.to_ndarray(format="rgb24")
            found.append(grey_thumbnails(picture[None]))
            if len(found) == _COMPARED:
                break
    return np.concatenate(found)
