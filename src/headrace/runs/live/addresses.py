"""Addresses become the sources of a live run here: at the pace that was asked for."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from headrace.decode.open import open_index
from headrace.errors import ConfigError
from headrace.extraction.frames import FrameReader
from headrace.live.address import FileAddress, addresses_of
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.live.open import live_source
from headrace.live.options import SourceOptions
from headrace.live.source import LiveSource
from headrace.profiling.session import Pace
from headrace.runs.live.options import PaceName
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter
from headrace.video.source import Source

_FILE_BATCH = 8
"""Frames that a file is read ahead by at a time."""


def open_sources(
    texts: Sequence[str], pace: PaceName, options: SourceOptions | None = None
) -> tuple[LiveSource, ...]:
    """Return the sources that addresses name, in order; nothing is opened yet.

    Args:
        texts: As the user typed them: see `addresses_of`.
        pace: Of files; `auto` reads them as fast as it can, but beside something that comes as it
            comes as they would be played.
        options: How cameras and network streams are connected to.

    Raises:
        ConfigError: nothing can be read there, or not at this pace.
    """
    addresses = addresses_of(texts)
    endless = [each.name for each in addresses if not isinstance(each, FileAddress)]
    if endless and pace == "offline":
        raise ConfigError(
            f"{endless[0]} comes as it comes, and --pace offline asks for it as fast as it can; "
            "leave out --pace"
        )
    if pace == "realtime" or endless:
        return tuple(live_source(address, options) for address in addresses)
    return tuple(FullSpeedFile(each.name) for each in addresses)


class FullSpeedFile:
    """A file, read as fast as its frames are taken: a `LiveSource` without a latency."""

    def __init__(self, path: str) -> None:
        """Nothing is opened yet."""
        self._path = path

    @property
    def name(self) -> str:
        """The path."""
        return self._path

    @property
    def base(self) -> Pace:
        """At full speed there is no arrival that latency could count from."""
        return "full_speed"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | Dropped]:
        """See `LiveSource.frames`; damage ends it."""
        index = open_index(Source.of(self._path))
        for batch in FrameReader([index], batch_size=_FILE_BATCH, clock=waiter.clock):
            for k in range(len(batch)):
                yield LiveFrame(
                    pixels=np.ascontiguousarray(batch.frames[k]),
                    source=number,
                    number=int(batch.index[k]),
                    run=0,
                    pts=int(batch.pts[k]),
                    time_base=batch.time_base,
                    arrived_ns=waiter.clock.now_ns(),
                )
