"""A way in a process of its own at a server of its own, while something happens to that."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchmarks.runner import Ask
from headrace.testing.rtsp import RtspServer

FRAME_NS = 1_000_000_000 / 30


Pause = Callable[[float], None]


class Over(Exception):  # noqa: N818 - an end, not an error
    """The worker has ended."""


@dataclass(kw_only=True)
class Served:
    """What came of it."""

    answer: dict[str, Any] = field(default_factory=dict)
    """Of `benchmarks.questions.live_stream`."""
    clients_ns: list[int] = field(default_factory=list)
    """For each client the server had: the moment that stands for frame 0."""

    @property
    def shown(self) -> list[tuple[int, int]]:
        """(moment in nanoseconds, number of the frame) of each picture that was shown."""
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
        question = {"question": "live_stream", "cores": None, "url": server.url(), **asked}
        served.answer = ask(question)
    finally:
        is_over.set()
        if not served.clients_ns:
            server.kill()
        thread.join()
        server.kill()
    return served
