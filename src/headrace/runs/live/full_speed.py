"""A file as a source of a live run that is not live: read as fast as its frames are taken."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from headrace.decode.open import open_index
from headrace.decode.protocol import OnError
from headrace.extraction.frames import FrameReader
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.live.paced import PacedFile
from headrace.live.received import DAMAGED
from headrace.profiling.session import Pace
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter
from headrace.video.loss import Loss
from headrace.video.source import Source

_FILE_BATCH: Final = 8
"""Frames that a file is read ahead by at a time."""


class FullSpeedFile:
    """A file, read as fast as its frames are taken: a `LiveSource` without a latency."""

    def __init__(self, source: Source, on_error: OnError = "raise") -> None:
        """Open nothing yet; damaged frames do what `on_error` says."""
        self._source = source
        self._on_error: OnError = on_error
        self.losses: list[Loss] = []
        """Frames that were left out or concealed, in order."""

    @property
    def name(self) -> str:
        """The path."""
        return str(self._source)

    @property
    def base(self) -> Pace:
        """At full speed there is no arrival that latency could count from."""
        return "full_speed"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | Dropped]:
        """See `LiveSource.frames`.

        Raises:
            DecodeError: a frame is damaged, and `on_error` is `raise`.
        """
        index = open_index(self._source)
        reader = FrameReader(
            [index], batch_size=_FILE_BATCH, on_error=self._on_error, clock=waiter.clock
        )
        self.losses = reader.losses
        place = run = 0
        for batch in reader:
            for k in range(len(batch)):
                left_out = int(batch.index[k]) - place
                yield from (Dropped(DAMAGED) for _ in range(left_out))
                place, run = place + left_out + 1, run + (left_out > 0)
                yield LiveFrame(
                    pixels=np.ascontiguousarray(batch.frames[k]),
                    source=number,
                    number=int(batch.index[k]),
                    run=run,
                    pts=int(batch.pts[k]),
                    time_base=batch.time_base,
                    arrived_ns=waiter.clock.now_ns(),
                )
        yield from (Dropped(DAMAGED) for _ in range(len(index) - place))


FileSource = PacedFile | FullSpeedFile
"""A source that is a file, at its own pace or at full speed."""
