"""A way in a process of its own at a server of its own, while something happens to that."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.clip import grey_thumbnails, number_of
from benchmarks.live.source import Net
from benchmarks.resources import Meter, versions
from benchmarks.worker import Ask, WorkerError
from headrace.testing.rtsp import RtspServer

FRAME_NS = 1_000_000_000 / 30
_PROVED = 8
"""Pictures that are kept to be held against the file."""
Pause = Callable[[float], None]


class Over(Exception):  # noqa: N818 - an end, not an error
    """The worker has ended."""


@dataclass(kw_only=True)
class Served:
    """What came of it."""

    answer: dict[str, Any] = field(default_factory=dict)
    """Of `answer`."""
    clients_ns: list[int] = field(default_factory=list)
    """For each client the server had: the moment that stands for frame 0."""

    @property
    def shown(self) -> list[tuple[int, int]]:
        """(moment in nanoseconds, number of the frame) of each picture that was shown.

        Raises:
            WorkerError: there is none.
        """
        if not self.answer["shown"]:
            raise WorkerError("it showed nothing")
        return [(at_ns, number) for at_ns, number in self.answer["shown"]]

    def ages_ms(self, client: int = 0) -> list[tuple[int, float]]:
        """(moment, age) of each picture, by the sender's clock: against when it was due."""
        base_ns = self.clients_ns[client]
        return [(at, (at - base_ns - number * FRAME_NS) / 1e6) for at, number in self.shown]


def serve(
    clip: Path,
    asked: Mapping[str, Any],
    ask: Ask,
    meanwhile: Callable[[RtspServer, Pause], None] = lambda server, pause: None,
) -> Served:
    """Start a server, ask a worker to show what it sends, and return what came of it.

    Args:
        clip: What is served, from its start for every client.
        asked: What the worker is asked with.
        ask: Asks it.
        meanwhile: Called when the first client plays, in a thread of its own; it waits by the
            pause it is given, which raises `Over` when the worker has ended.

    Raises:
        WorkerError: the worker failed.
    """
    server, served, is_over = RtspServer(), Served(), Event()
    server.start(clip.resolve())

    def pause(seconds: float) -> None:
        if is_over.wait(seconds):
            raise Over

    def watch() -> None:
        # Without a client the server is killed in the end, and tells nothing: a ValueError.
        with suppress(Over, ValueError):
            served.clients_ns.append(server.next_client_ns())
            pause(0)
            meanwhile(server, pause)

    thread = Thread(target=watch)
    thread.start()
    try:
        question = {"case": "live.serving", "url": server.url(), **asked}
        served.answer = ask(question)
    finally:
        is_over.set()
        if not served.clients_ns:
            server.kill()
        thread.join()
        server.kill()
    return served


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is shown, and until when."""

    url: str
    net: Net
    until_ns: int
    """By `time.perf_counter_ns`."""
    max_staleness: str | None
    """Age that is asked for, by those who can be asked."""
    show: Callable[[NDArray[np.uint8]], None]
    """Takes each picture when the model is done with it: uint8 [H, W, 3], RGB or BGR."""
    note: Callable[[str], None]
    """Hears of each loss: "stalled", "lost"."""

    @property
    def is_over(self) -> bool:
        """It is time to end."""
        return perf_counter_ns() >= self.until_ns


Way = Callable[[Stream], object]
"""Shows the stream until it is over."""


def answer(
    *,
    way: str,
    url: str,
    seconds: float,
    model_seconds: float = 0.0,
    max_staleness: str | None = None,
    pictures: str | None = None,
) -> dict[str, Any]:
    """Show the stream for so long after asking for it; moments are of `time.perf_counter_ns`."""
    os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
    module = import_module(f"benchmarks.adapters.{way.partition('_')[0]}")
    net = Net(threads=1, at_least=model_seconds)
    shown: list[tuple[int, int]] = []
    heard: list[tuple[int, str]] = []
    kept: list[NDArray[np.uint8]] = []

    def show(picture: NDArray[np.uint8]) -> None:
        now_ns = perf_counter_ns()
        shown.append((now_ns, number_of(picture)))
        if len(kept) < _PROVED:
            kept.append(picture)

    meter, began_ns = Meter(), perf_counter_ns()
    module.LIVE[way](
        Stream(
            url=url,
            net=net,
            until_ns=began_ns + round(seconds * 1e9),
            max_staleness=max_staleness,
            show=show,
            note=lambda word: heard.append((perf_counter_ns(), word)),
        )
    )
    if pictures and kept:
        numbers = np.array([number for _, number in shown[: len(kept)]])
        np.savez(pictures, numbers=numbers, pictures=grey_thumbnails(np.stack(kept)))
    return {
        "began_ns": began_ns,
        "shown": shown,
        "heard": heard,
        "meter": meter.read(),
        "versions": versions(module.PACKAGES),
    }
