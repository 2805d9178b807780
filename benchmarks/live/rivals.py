"""headrace and common loops over OpenCV on an RTSP stream: age of shown frames, and recovery."""

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
    "roboflow inference 1.8.3": "its 190 packages, including another PyTorch, were not installed "
    "within three minutes"
}
_COMPARED = 120
"""Number of first frames of the clip that shown frames are compared with."""


class Shown(Tried):
    """Frames of a stream that one variant showed."""

    way: str
    versions: dict[str, str] = Field(default_factory=dict)
    proved_frames: int = 0
    """Shown frames whose pixels match the clip's frame with their number."""
    frames: int = 0
    """Frames shown after the warm-up."""
    per_second: float = 0.0
    """Frames shown per second after the warm-up."""
    age_ms: Quantiles | None = None
    """Age at the model's result, by the sender's clock."""


class Streaming(Record):
    """All variants on the same stream."""

    model_ms: float
    """Min milliseconds of the model; 0: its own time."""
    seconds: float
    warm_up_seconds: float
    shown: tuple[Shown, ...]


class Rivals(Part):
    """headrace and common OpenCV loops on an RTSP stream."""

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
        clip: Clip to serve.
        ask: Sends a request to a worker process.
        known: Existing recoveries, which have more repeats.
        ways: Variants.
        seconds: Measured seconds.
        warm_up_seconds: Seconds from the first frame that are left out: probing ends, and buffered
            frames are consumed.
        model_ms: Milliseconds of the slow model, which takes a third of 30 frames per second.
        max_staleness: headrace's `max_staleness` under overload.
    """
    scale: dict[str, Any] = {"seconds": seconds, "model_ms": model_ms}
    provenance = origin(**scale, max_staleness=max_staleness, clip=clip.name)
    reference = first_frames(clip)
    by_way = {row.way: row for row in known}

    def streaming(model_ms: float, max_staleness: str | None) -> Streaming:
        request: dict[str, Any] = {"seconds": seconds + warm_up_seconds + 1}
        request |= {"model_seconds": model_ms / 1e3, "max_staleness": max_staleness}
        shown = tuple(watch(way, clip, warm_up_seconds, request, reference, ask) for way in ways)
        times = {"seconds": seconds, "warm_up_seconds": warm_up_seconds}
        return Streaming(model_ms=model_ms, shown=shown, **times)

    return Rivals(
        provenance=provenance,
        keeping_up=streaming(0.0, None),
        overloaded=streaming(model_ms, max_staleness),
        recovery=tuple(by_way.get(way) or recover(way, clip, 1, ask) for way in ways),
        left_out=LEFT_OUT,
    )


def watch(
    way: str,
    clip: Path,
    warm_up_seconds: float,
    request: Mapping[str, Any],
    reference: Pictures,
    ask: Ask,
) -> Shown:
    """Return the frames of a served clip that one variant showed.

    Compares the first shown frames with the clip's first frames, `reference`.
    """
    with TemporaryDirectory() as folder:
        thumbnails = Path(folder) / "pictures.npz"
        try:
            served = serve(clip, {"way": way, "pictures": str(thumbnails), **request}, ask)
            shown = count_shown(way, served, warm_up_seconds)
        except WorkerError as error:
            return Shown(way=way, failure=str(error))
        with np.load(thumbnails) as stored:
            numbers, pictures = stored["numbers"], stored["pictures"]
    known = numbers < len(reference)
    requests = np.stack([np.zeros(known.sum(), np.int64), numbers[known]], axis=1)
    equality = compare_picked([reference], requests, pictures[known])
    if not equality.frames or not equality.holds:
        words = f"{equality.wrong} of {equality.frames} frames differ from the frame they number"
        return Shown(way=way, failure=words)
    return shown.model_copy(update={"proved_frames": equality.frames})


def first_frames(clip: Path) -> Pictures:
    """Return gray thumbnails of a clip's first frames, by plain decoding."""
    with av.open(str(clip)) as container:
        frames = islice(container.decode(video=0), _COMPARED)
        pictures: list[NDArray[Any]] = [frame.to_ndarray(format="rgb24") for frame in frames]
    return grey_thumbnails(np.stack(pictures))


def count_shown(way: str, served: Served, warm_up_seconds: float) -> Shown:
    """Return the frames shown at least `warm_up_seconds` after the first."""
    begin_ns = served.shown[0][0] + warm_up_seconds * 1e9
    shown = [(at, age) for at, age in served.ages_ms() if at >= begin_ns]
    seconds = (shown[-1][0] - shown[0][0]) / 1e9 if len(shown) > 1 else 0.0
    per_second = (len(shown) - 1) / seconds if seconds else 0.0
    counts = {"versions": served.answer["versions"], "frames": len(shown), "per_second": per_second}
    return Shown(way=way, age_ms=Quantiles.of([age for _, age in shown]), **counts)


def rivals(result: Rivals) -> str:
    keeps, overloaded = result.keeping_up, result.overloaded
    by_way = {row.way: row for row in overloaded.shown}
    head = (
        *("RTSP, 720p at 30 frames/s", "age p50 / p95, ms", "shown/s"),
        *("3 × overload: age p50 / p95 / max, ms", "shown/s"),
    )
    lines = [
        (NAMES[row.way], *_shown(row, "p50", "p95"), *_shown(other, "p50", "p95", "worst"))
        for row in keeps.shown
        for other in (by_way[row.way],)
    ]
    after = rendered(
        result.recovery,
        {
            "failed stream": lambda row: NAMES[row.way],
            "first frame, s": lambda row: figure(row.first_picture_seconds),
            "stall detected, s": lambda row: median_or_never(row.noticed_seconds),
            "frame after the stall, s": lambda row: median_or_never(row.resumed_seconds),
            "age after the stall, ms": lambda row: median_or_never(row.age_after_stall_ms, ",.0f"),
            "frame after a restart, s": lambda row: median_or_never(row.again_seconds),
        },
        *_notes(result),
    )
    return f"{table(head, lines)}\n\n{after}"


def _notes(result: Rivals) -> list[str]:
    keeps, model_ms = result.keeping_up, result.overloaded.model_ms
    versions = {
        name: f"{name} {version}" for row in keeps.shown for name, version in row.versions.items()
    }
    versions.pop("libavcodec", None)
    return [
        f"mobilenet_v2 with one thread; under overload, slowed to {model_ms:.0f} ms. Each variant "
        f"runs in its own process, for {keeps.seconds:.0f} s after {keeps.warm_up_seconds:.0f} s "
        "of warm-up. *Age*: from the time at which the sender is due to send a frame, by its "
        "clock, to the model's result. Each frame has its number in its pixels; the first shown "
        "frames were compared with the clip. Under overload, headrace runs with a max staleness of "
        f"{result.provenance.configuration['max_staleness']}, which counts from the arrival of a "
        "frame; the loops have no equivalent option.",
        "OpenCV runs with its defaults. Its loops reopen a stream a second after a failed read; "
        "most published loops end there. *Never*: not before the next event, seconds later.",
        *(f"Not measured: {name}: {why}." for name, why in result.left_out.items()),
        f"{', '.join(versions.values())}. {result.where}",
    ]


def _shown(row: Shown, *names: str) -> tuple[str, str]:
    if row.failure is not None or row.age_ms is None:
        return f"failed: {row.failure or 'no frame was shown'}", ""
    ages: Quantiles = row.age_ms
    cells = [figure(getattr(ages, name), ",.0f") or "too few" for name in names]
    return " / ".join(cells), f"{row.per_second:.1f}"
