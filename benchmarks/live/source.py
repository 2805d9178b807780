"""A file that one thread decodes: as fast as its frames are taken, or at a rate of one's own."""

from collections.abc import Callable, Generator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from headrace.decode.open import open_decoder, open_index
from headrace.decode.protocol import DecodeJob
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.planning.stretches import in_order
from headrace.profiling.session import Pace
from headrace.runtime.waiter import Waiter


class OneThread:
    """A `LiveSource` of one file, each time from its start."""

    def __init__(self, path: Path, rate: int | None = None) -> None:
        """Scan it; `rate` is in frames per second, None for as fast as they are taken."""
        self._index = open_index(path)
        self._rate = rate
        self.name = str(path)

    @property
    def base(self) -> Pace:
        """A schedule, or none."""
        return "full_speed" if self._rate is None else "schedule"

    def frames(
        self,
        number: int,
        waiter: Waiter,
        note: Callable[[Event], None] = lambda event: None,
    ) -> Generator[LiveFrame, None, None]:
        """See `LiveSource.frames`; each is decoded before it is due."""
        start_ns = None
        with closing(open_decoder(self._index)) as decoder:
            for stretch in in_order(0, self._index):
                for place, pixels in decoder.run(DecodeJob(stretch.wanted)):
                    moment_ns = waiter.clock.now_ns()
                    if self._rate is not None:
                        start_ns = moment_ns if start_ns is None else start_ns
                        moment_ns = start_ns + round(Fraction(place, self._rate) * 1_000_000_000)
                        waiter.until(moment_ns)
                    yield LiveFrame(
                        pixels=pixels,
                        source=number,
                        number=place,
                        run=0,
                        pts=int(self._index.pts[place]),
                        time_base=self._index.info.time_base,
                        arrived_ns=moment_ns,
                    )
