"""headrace and loops over OpenCV, over RTSP: age of shown frames, and recovery."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from benchmarks.equality import Pictures, compare_picked
from benchmarks.live.figures import NAMES, Part, Quantiles, median_or_never
from benchmarks.live.recovering import Recovery, Served, recover, serve
from benchmarks.live.source import grey_thumbnails
from benchmarks.markdown import figure, rendered, table
from benchmarks.record import Tried, origin
from benchmarks.worker import Ask, WorkerError
from headrace.profiling.provenance import Record

WAYS = ("headrace", "opencv_latest", "opencv_queue", "opencv_loop")
LEFT_OUT = {
    "roboflow inference 1.8.3": "its 190 packages, a PyTorch of its own among them, were not "
    "installed after three minutes"
}
_COMPARED = 120
"""First frames of the clip, to compare shown frames with."""


class Shown(Tried):
    """Frames of a stream shown by one variant."""

    way: str
    versions: dict[str, str] = Field(default_factory=dict)
    proved_frames: int = 0
    """Frames whose pixels match the frame with their number."""
    frames: int = 0
    """Frames shown after the warm-up."""
    per_second: float = 0.0
    age_ms: Quantiles | None = None
    """Age at the model's result, by the sender's clock."""


class Streaming(Record):
    """All variants on the same stream."""

    model_ms: float
    """Milliseconds of the model; 0: its own speed."""
    seconds: float
    warm_up_seconds: float
    shown: tuple[Shown, ...]


class Rivals(Part):
    """headrace and common OpenCV loops, over RTSP."""

    keeping_up: Streaming
    overloaded: Streaming
    recovery: tuple[Recovery, ...]
    left_out: dict[str, str] = Field(default_factory=dict)
    """Skipped variant → reason."""


def measure_rivals(
    clip: Path,
    ask: Ask,
    known: Sequence[Recovery] = (),
    *,
    ways: Sequence[str] = WAYS,
    seconds: float = 12.0,
    warm_up_seconds: float = 3.0,
    model_ms: float = 100.0,
    max_staleness: str = "200ms",
) -> Rivals:
    """Measure all variants.

    Args:
        clip: Served clip.
        ask: Sends a request to a worker process.
        known: Existing recoveries, with more repeats.
        ways: Variants.
        seconds: Counted seconds.
        warm_up_seconds: Uncounted seconds from the first frame: probing ends, and buffered frames
            are consumed.
        model_ms: Milliseconds of a model three times too slow for 30 frames a second.
        max_staleness: headrace's `max_staleness` under overload.
    """
    scale: dict[str, Any] = {"seconds": seconds, "model_ms": model_ms}
    made = origin(**scale, max_staleness=max_staleness, clip=clip.name)
    reference = first_frames(clip)
    by_way = {row.way: row for row in known}

    def streaming(model_ms: float, max_staleness: str | None) -> Streaming:
        asked: dict[str, Any] = {"seconds": seconds + warm_up_seconds + 1}
        asked |= {"model_seconds": model_ms / 1e3, "max_staleness": max_staleness}
        shown = tuple(watch(way, clip, warm_up_seconds, asked, reference, ask) for way in ways)
        times = {"seconds": seconds, "warm_up_seconds": warm_up_seconds}
        return Streaming(model_ms=model_ms, shown=shown, **times)

    return Rivals(
        provenance=made,
        keeping_up=streaming(0.0, None),
        overloaded=streaming(model_ms, max_staleness),
        recovery=tuple(by_way.get(way) or recover(way, clip, 1, ask) for way in ways),
        left_out=LEFT_OUT,
    )


def watch(
    way: str,
    clip: Path,
    warm_up_seconds: float,
    asked: Mapping[str, Any],
    reference: Pictures,
    ask: Ask,
) -> Shown:
    """Return the frames of a served clip shown by one variant.

    Checks the shown frames against the clip's first frames, `reference`.
    """
    with TemporaryDirectory() as folder:
        place = Path(folder) / "pictures.npz"
        try:
            served = serve(clip, {"way": way, "pictures": str(place), **asked}, ask)
            result = count_shown(way, served, warm_up_seconds)
        except WorkerError as error:
            return Shown(way=way, failure=str(error))
        with np.load(place) as stored:
            numbers, pictures = stored["numbers"], stored["pictures"]
    known = numbers < len(reference)
    requests = np.stack([np.zeros(known.sum(), np.int64), numbers[known]], axis=1)
    proof = compare_picked([reference], requests, pictures[known])
    if not proof.frames or not proof.holds:
        words = f"{proof.wrong} of {proof.frames} pictures are not the frames they say"
        return Shown(way=way, failure=words)
    return result.model_copy(update={"proved_frames": proof.frames})


def first_frames(clip: Path) -> Pictures:
    """Return grey thumbnails of a clip's first frames, by plain decoding."""
    with av.open(str(clip)) as container:
        frames = islice(container.decode(video=0), _COMPARED)
        pictures: list[NDArray[Any]] = [frame.to_ndarray(format="rgb24") for frame in frames]
    return grey_thumbnails(np.stack(pictures))


def count_shown(way: str, served: Served, warm_up_seconds: float) -> Shown:
    """Return the frames shown later than `warm_up_seconds` after the first."""
    begin_ns = served.shown[0][0] + warm_up_seconds * 1e9
    kept = [(at, age) for at, age in served.ages_ms() if at >= begin_ns]
    passed = (kept[-1][0] - kept[0][0]) / 1e9 if len(kept) > 1 else 0.0
    per_second = (len(kept) - 1) / passed if passed else 0.0
    about = {"versions": served.answer["versions"], "frames": len(kept), "per_second": per_second}
    return Shown(way=way, age_ms=Quantiles.of([age for _, age in kept]), **about)


def rivals(result: Rivals) -> str:
    keeps, overloaded = result.keeping_up, result.overloaded
    by_way = {row.way: row for row in overloaded.shown}
    head = (
        *("RTSP, 720p at 30 frames/s", "age p50 / p95, ms", "shown/s"),
        *("three times too many: age p50 / p95 / worst, ms", "shown/s"),
    )
    lines = [
        (NAMES[row.way], *_shown(row, "p50", "p95"), *_shown(other, "p50", "p95", "worst"))
        for row in keeps.shown
        for other in (by_way[row.way],)
    ]
    after = rendered(
        result.recovery,
        {
            "a source that fails": lambda row: NAMES[row.way],
            "first picture, s": lambda row: figure(row.first_picture_seconds),
            "stall noticed, s": lambda row: median_or_never(row.noticed_seconds),
            "picture after it, s": lambda row: median_or_never(row.resumed_seconds),
            "age then, ms": lambda row: median_or_never(row.age_after_stall_ms, ",.0f"),
            "picture of the restarted one, s": lambda row: median_or_never(row.again_seconds),
        },
        *_notes(result),
    )
    return f"{table(head, lines)}\n\n{after}"


def _notes(result: Rivals) -> list[str]:
    keeps, model_ms = result.keeping_up, result.overloaded.model_ms
    versions = {
        name: f"{name} {said}" for row in keeps.shown for name, said in row.versions.items()
    }
    versions.pop("libavcodec", None)
    return [
        f"mobilenet_v2 with one thread, and the same made to take {model_ms:.0f} ms; "
        f"each variant in a process of its own, {keeps.seconds:.0f} s after "
        f"{keeps.warm_up_seconds:.0f} s of warm-up. Age is by the sender's clock, from the "
        "moment a frame was due to be sent until the model is done with it; each frame carries "
        "its number, and that its pixels are that frame's was proved first. headrace was asked for "
        f"{result.provenance.configuration['max_staleness']} at most under overload, counted from "
        "the frame's arrival here; a loop cannot be asked.",
        "OpenCV has its defaults. Its loops open a stream again a second after reading fails; as "
        "people write them, most end there. *Never*: not before the next event, seconds later.",
        *(f"Not measured: {name}: {why}." for name, why in result.left_out.items()),
        f"{', '.join(versions.values())}. {result.where}",
    ]


def _shown(row: Shown, *names: str) -> tuple[str, str]:
    if row.failure is not None or row.age_ms is None:
        return f"failed: {row.failure or 'nothing shown'}", ""
    ages: Quantiles = row.age_ms
    cells = [figure(getattr(ages, name), ",.0f") or "too few" for name in names]
    return " / ".join(cells), f"{row.per_second:.1f}"
