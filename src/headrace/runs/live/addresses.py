"""The one place where addresses become the sources of a live run."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from headrace.decode.open import open_index
from headrace.errors import ConfigError
from headrace.extraction.frames import FrameReader
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.live.source import LiveSource
from headrace.profiling.session import Pace
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter
from headrace.video.manifest import find_videos
from headrace.video.source import Source

_FILE_BATCH = 8
"""Frames that a file is read ahead by at a time."""


def open_sources(
    addresses: Sequence[str], *, is_paced: bool, waits: bool = False
) -> tuple[LiveSource, ...]:
    """Return the sources that addresses name, in order; files and folders of them.

    Args:
        addresses: As the user typed them.
        is_paced: Whether files are read as they would be played, or as fast as they can.
        waits: Whether a source that cannot be opened at first is waited for.

    Raises:
        ConfigError: an address cannot be read in this way.
    """
    for address in addresses:
        if is_endless(address):
            raise ConfigError(f"{address.partition(':')[0]}: sources are not read yet; give files")
    return tuple(FileSource(str(path), is_paced=is_paced) for path in find_videos(addresses))


def is_endless(address: str) -> bool:
    """Whether it names something that comes as it comes: a camera, a stream, a pattern."""
    return not Path(address).exists() and ("://" in address or address.isdecimal())


class FileSource:
    """A file, read as it would be played or as fast as it can: a `LiveSource`."""

    def __init__(self, path: str, *, is_paced: bool) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._is_paced = is_paced

    @property
    def name(self) -> str:
        """The path."""
        return self._path

    @property
    def base(self) -> Pace:
        """`schedule`: when each frame was due."""
        return "schedule" if self._is_paced else "full_speed"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | Dropped]:
        """See `LiveSource.frames`."""
        index = open_index(Source.of(self._path))
        reader = FrameReader([index], batch_size=_FILE_BATCH, workers=1, clock=waiter.clock)
        first_seconds = index.seconds(0)
        start_ns: int | None = None
        for batch in reader:
            if start_ns is None:
                start_ns = waiter.clock.now_ns()
                note(Event(at_ns=start_ns, source=number, kind="joined", words="opened"))
            for k in range(len(batch)):
                due_ns = waiter.clock.now_ns()
                if self._is_paced:
                    offset = float(batch.pts_seconds[k]) - first_seconds
                    due_ns = start_ns + round(offset * 1e9)
                    waiter.until(due_ns)
                yield LiveFrame(
                    pixels=np.ascontiguousarray(batch.frames[k]),
                    source=number,
                    number=int(batch.index[k]),
                    run=0,
                    pts=int(batch.pts[k]),
                    time_base=batch.time_base,
                    arrived_ns=due_ns,
                )
        note(Event(at_ns=waiter.clock.now_ns(), source=number, kind="ended", words="end of file"))
