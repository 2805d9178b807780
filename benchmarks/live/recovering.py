"""Recovery of each variant from a server that stalls, or is killed and restarted."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.figures import Part
from benchmarks.live.source import classifier, grey_thumbnails, number_of
from benchmarks.markdown import table, yes
from benchmarks.record import Tried, origin
from benchmarks.worker import Ask, WorkerError, versions
from headrace.runs.live.live_batches import ModelRunner
from headrace.testing.rtsp import RtspServer

FRAME_NS = 1_000_000_000 / 30
_PROVED = 8
"""Number of shown frames that are compared with the file."""
Pause = Callable[[float], None]


class Over(Exception):  # noqa: N818 - an end, not an error
    """The worker has exited."""


@dataclass(kw_only=True)
class Served:
    """Result of one worker that shows a served stream."""

    answer: dict[str, Any] = field(default_factory=dict)
    """Result of `answer`."""
    clients_ns: list[int] = field(default_factory=list)
    """Time of frame 0 for each client of the server."""

    @property
    def shown(self) -> list[tuple[int, int]]:
        """Return (time in nanoseconds, frame number) of each shown frame.

        Raises:
            WorkerError: no frame was shown.
        """
        if not self.answer["shown"]:
            raise WorkerError("no frame was shown")
        return [(at_ns, number) for at_ns, number in self.answer["shown"]]

    def ages_ms(self) -> list[tuple[int, float]]:
        """Return (time, age) of each frame; age starts at the due time, by the sender's clock."""
        base_ns = self.clients_ns[0]
        return [(at, (at - base_ns - number * FRAME_NS) / 1e6) for at, number in self.shown]


def serve(
    clip: Path,
    request: Mapping[str, Any],
    ask: Ask,
    meanwhile: Callable[[RtspServer, Pause], None] = lambda server, pause: None,
) -> Served:
    """Start a server, let a worker show its stream, and return the result.

    Args:
        clip: Clip to serve; every client starts at its first frame.
        request: Arguments of the worker.
        ask: Sends a request to a worker process.
        meanwhile: Called in a thread once the first client plays. It waits by calling the given
            pause, which raises `Over` once the worker has exited.

    Raises:
        WorkerError: the worker failed.
    """
    server, served, is_over = RtspServer(), Served(), Event()
    server.start(clip.resolve())

    def pause(seconds: float) -> None:
        if is_over.wait(seconds):
            raise Over

    def watch() -> None:
        # If no client connects, the server is killed and `next_client_ns` raises ValueError.
        with suppress(Over, ValueError):
            served.clients_ns.append(server.next_client_ns())
            pause(0)
            meanwhile(server, pause)

    thread = Thread(target=watch)
    thread.start()
    try:
        served.answer = ask({"case": "live.recovering", "url": server.url(), **request})
    finally:
        is_over.set()
        if not served.clients_ns:
            server.kill()
        thread.join()
        server.kill()
    return served


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Stream to show, with callbacks for frames and losses."""

    url: str
    engine: ModelRunner
    until_ns: int
    """End time by `time.perf_counter_ns`."""
    max_staleness: str | None
    """Max age of frames, for variants with this option; None: no limit."""
    show: Callable[[NDArray[np.uint8]], None]
    """Called with each frame after the model: uint8 [H, W, 3], RGB or BGR."""
    note: Callable[[str], None]
    """Called with each loss of the stream: "stalled", "lost"."""

    def answer(self, picture: NDArray[np.uint8]) -> object:
        """Return the model's result for one frame, uint8 [H, W, 3], RGB."""
        return self.engine.run(self.engine.prepare(picture[None]))

    @property
    def is_over(self) -> bool:
        """Whether the end time has passed."""
        return perf_counter_ns() >= self.until_ns


Player = Callable[[Stream], None]
"""Function that shows the stream until its end."""


def answer(
    *,
    way: str,
    url: str,
    seconds: float,
    model_seconds: float = 0.0,
    max_staleness: str | None = None,
    pictures: str | None = None,
) -> dict[str, Any]:
    """Show the stream for `seconds`; return times by `time.perf_counter_ns`."""
    os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
    module = import_module(f"benchmarks.adapters.{way.partition('_')[0]}")
    engine = classifier(threads=1, at_least=model_seconds)
    shown: list[tuple[int, int]] = []
    losses: list[tuple[int, str]] = []
    first_frames: list[NDArray[np.uint8]] = []

    def show(picture: NDArray[np.uint8]) -> None:
        now_ns = perf_counter_ns()
        shown.append((now_ns, number_of(picture)))
        if len(first_frames) < _PROVED:
            first_frames.append(picture)

    began_ns = perf_counter_ns()
    module.LIVE[way](
        Stream(
            url=url,
            engine=engine,
            until_ns=began_ns + round(seconds * 1e9),
            max_staleness=max_staleness,
            show=show,
            note=lambda kind: losses.append((perf_counter_ns(), kind)),
        )
    )
    if pictures and first_frames:
        numbers = np.array([number for _, number in shown[: len(first_frames)]])
        np.savez(pictures, numbers=numbers, pictures=grey_thumbnails(np.stack(first_frames)))
    times = {"began_ns": began_ns, "shown": shown, "losses": losses}
    return {**times, "versions": versions(module.PACKAGES)}


_LAST_NS = 500_000_000
"""Nanoseconds before the next event in which the age after a stall is measured."""
LOSSES = ("stalled", "lost", "disconnected")
"""Kinds of losses that the variants report."""


class Recovery(Tried):
    """Recovery of one variant from stalls and restarts of the server."""

    way: str
    first_picture_seconds: float | None = None
    """From the request to the server until the first shown frame."""
    noticed_seconds: tuple[float | None, ...] = ()
    """From SIGSTOP until the variant reported a loss; None: not before SIGCONT."""
    resumed_seconds: tuple[float | None, ...] = ()
    """From SIGCONT until the next shown frame; None: not before the next event."""
    age_after_stall_ms: tuple[float | None, ...] = ()
    """Median age of the frames shown in the last half second before the next event."""
    again_seconds: tuple[float | None, ...] = ()
    """From the restarted server listening until its first shown frame; None: not before the next
    event."""


class Recovering(Part):
    """Recovery of headrace, with its limits."""

    noticed_bar_seconds: float = 2.0
    again_bar_seconds: float = 2.0
    """Limit for `again_seconds` minus `first_picture_seconds`."""
    found: tuple[Recovery, ...]


_BEFORE, _SILENT, _GOING_ON, _DOWN, _AGAIN = 2.0, 2.5, 2.0, 0.5, 5.0
"""Seconds from the first client to the first stall; of a stall; after a stall; from a kill to the
restart; after a restart."""
_MOST_TO_FIRST = 6.0
"""Max seconds until a variant's first client plays, including its start."""


def measure_recovering(clip: Path, ask: Ask, *, cycles: int = 5) -> Recovering:
    """Measure headrace with `cycles` stalls and restarts."""
    provenance = origin(way="headrace", cycles=cycles, clip=clip.name)
    result = recover("headrace", clip, cycles, ask)
    if result.failure is not None:
        raise WorkerError(result.failure)
    return Recovering(provenance=provenance, found=(result,))


def recover(way: str, clip: Path, cycles: int, ask: Ask) -> Recovery:
    """Stop and continue the server `cycles` times, then kill and restart it as many times."""
    stalls, restarts = list[tuple[int, int, int]](), list[tuple[int, int]]()
    cycle = _SILENT + _GOING_ON + _DOWN + _AGAIN + 0.5

    def play(server: RtspServer, pause: Pause) -> None:
        pause(_BEFORE)
        for _ in range(cycles):
            stopped_ns = perf_counter_ns()
            server.stop()
            pause(_SILENT)
            server.go_on()
            continued_ns = perf_counter_ns()
            pause(_GOING_ON)
            stalls.append((stopped_ns, continued_ns, perf_counter_ns()))
        for _ in range(cycles):
            server.kill()
            pause(_DOWN)
            server.start(clip.resolve())
            listening_ns = perf_counter_ns()
            pause(_AGAIN)
            restarts.append((listening_ns, perf_counter_ns()))

    try:
        seconds = _BEFORE + cycles * cycle + _MOST_TO_FIRST
        served = serve(clip, {"way": way, "seconds": seconds}, ask, play)
        return recovery(way, served, stalls, restarts)
    except WorkerError as error:
        return Recovery(way=way, failure=str(error))


def recovery(
    way: str,
    served: Served,
    stalls: Sequence[tuple[int, int, int]],
    restarts: Sequence[tuple[int, int]],
) -> Recovery:
    """Return the recovery from recorded times in nanoseconds.

    Args:
        way: Variant.
        served: Result of its worker.
        stalls: (stopped, continued, next event) of the server.
        restarts: (listening again, next event) of the server.
    """
    shown = served.shown
    lost_ns = [at for at, kind in served.answer["losses"] if kind in LOSSES]
    # The first frame after a restart has a lower number than the frame before it.
    first_ns = [at for (_, before), (at, number) in pairwise(shown) if number < before]
    return Recovery(
        way=way,
        first_picture_seconds=(shown[0][0] - served.answer["began_ns"]) / 1e9,
        noticed_seconds=tuple(_first(lost_ns, stop, go) for stop, go, _ in stalls),
        resumed_seconds=tuple(_first([at for at, _ in shown], go, end) for _, go, end in stalls),
        age_after_stall_ms=tuple(_age_before(served.ages_ms(), end) for _, _, end in stalls),
        again_seconds=tuple(_first(first_ns, up, end) for up, end in restarts),
    )


def _first(moments_ns: Sequence[int], since_ns: int, until_ns: int) -> float | None:
    """Return the seconds from `since_ns` to the first time before `until_ns`."""
    inside = [at for at in moments_ns if since_ns <= at < until_ns]
    return (inside[0] - since_ns) / 1e9 if inside else None


def _age_before(ages_ms: Sequence[tuple[int, float]], end_ns: int) -> float | None:
    recent = [age for at, age in ages_ms if end_ns - _LAST_NS <= at < end_ns]
    return median(recent) if recent else None


def rtsp(result: Recovering) -> str:
    [ours] = result.found
    first = ours.first_picture_seconds or 0.0
    beyond = [None if seconds is None else seconds - first for seconds in ours.again_seconds]
    again = "from the restart to a frame, minus the time to the first frame"
    lines = [
        _line(
            "from SIGSTOP to the detected stall", ours.noticed_seconds, result.noticed_bar_seconds
        ),
        _line("from SIGCONT to a frame", ours.resumed_seconds, None),
        _line(again, beyond, result.again_bar_seconds),
    ]
    notes = [
        "GStreamer's RTSP server over TCP, real video of 720p at 30 frames/s; "
        f"{len(ours.noticed_seconds)} stalls and {len(ours.again_seconds)} restarts in one run. "
        f"The first frame was shown {first:.2f} s after the request.",
        result.where,
    ]
    head = ("recovery of a failed stream, s", "median", "max", "limit", "met")
    return table(head, lines, *notes)


def _line(
    name: str, values: Sequence[float | None], bar: float | None
) -> tuple[str, str, str, str, str]:
    known = [value for value in values if value is not None]
    missed = len(values) - len(known)
    worst = middle = "never"
    if known:
        middle = f"{median(known):.2f}"
        worst = f"never ({missed} of {len(values)})" if missed else f"{max(known):.2f}"
    if bar is None:
        return name, middle, worst, "", ""
    is_met = bool(known) and not missed and max(known) < bar
    return name, middle, worst, f"< {bar:g}", yes(is_met)
