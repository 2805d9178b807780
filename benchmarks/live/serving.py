"""A way in a process of its own at a server of its own, while something happens to that."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from benchmarks.runner import Ask
from headrace.testing.rtsp import RtspServer

FRAME_NS = 1_000_000_000 / 30


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
    meanwhile: Callable[[RtspServer, list[int]], None] = lambda server, clients_ns: None,
) -> Served:
    """Start a server, ask a worker to show what it sends, and return what came of it.

    Args:
        clip: What is served, from its start for every client.
        asked: What the worker is asked with.
        ask: Asks it.
        meanwhile: Called when the first client plays, in a thread of its own; it appends the
            moments of further clients.

    Raises:
        WorkerError: the worker failed.
    """
    server, served = RtspServer(), Served()
    server.start(clip.resolve())

    def watch() -> None:
        try:
            served.clients_ns.append(server.next_client_ns())
            meanwhile(server, served.clients_ns)
        except ValueError:
            return  # the server was killed before a client came: the worker has failed

    with _ended(server, Thread(target=watch)):
        question = {"question": "live_stream", "cores": None, "url": server.url(), **asked}
        served.answer = ask(question)
    return served


@contextmanager
def _ended(server: RtspServer, thread: Thread) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        server.kill()
        thread.join()
