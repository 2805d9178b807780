"""A file in real time: each frame is due at its pts, however late the reader is (open loop)."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Literal

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder, open_index
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.errors import DecodeError
from headrace.live.address import FileAddress
from headrace.live.events import Event, EventKind
from headrace.live.frame import LiveFrame
from headrace.live.received import DAMAGED
from headrace.planning.stretches import in_order
from headrace.profiling.session import Pace
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter
from headrace.video.loss import Loss
from headrace.video.stream_index import StreamIndex

OnDamage = Literal["raise", "skip"]
"""What a damaged frame does that is due in real time: it ends the source, or it is left out. What
FFmpeg shows instead is known only behind the frames that lean on it, which is too late."""


class PacedFile:
    """A video file, decoded exactly and played by its timetable; one thread decodes."""

    base: Pace = "schedule"

    def __init__(
        self,
        address: FileAddress,
        store: IndexStore | None = None,
        *,
        on_error: OnDamage = "raise",
    ) -> None:
        """Open nothing yet; indexes are kept in `store`, or in the user's cache folder."""
        self._address = address
        self._store = store
        self._on_error: OnDamage = on_error
        self.losses: list[Loss] = []
        """Frames that were left out, in order."""

    @property
    def name(self) -> str:
        """For a reader."""
        return self._address.name

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | Dropped]:
        """Yield each frame when it is due, and `Dropped` for a damaged one. See `LiveSource`.

        The timetable starts when the first frame is decoded: scanning and opening make none late.

        Raises:
            DecodeError: a frame is damaged, and `on_error` is `raise`; behind the frames before it.
        """
        clock = waiter.clock

        def tell(kind: EventKind, words: str, frames: int = 0) -> None:
            now_ns = clock.now_ns()
            note(Event(at_ns=now_ns, source=number, kind=kind, words=words, frames=frames))

        index = open_index(self._address.source, self._store)
        run, damaged, start_ns = 0, 0, None
        with closing(open_decoder(index)) as decoder:
            frames = all_frames(decoder, index, on_error=self._on_error, losses=self.losses)
            for place, pixels in frames:
                if start_ns is None:
                    start_ns = clock.now_ns()
                    tell("joined", "joined")
                due_ns = start_ns + nanoseconds(index, place)
                waiter.until(due_ns)
                if pixels is None:
                    damaged += 1
                    yield Dropped(DAMAGED)
                    continue
                if damaged:
                    tell("dropped", f"damaged before frame {place}", damaged)
                run, damaged = run + (damaged > 0), 0
                yield LiveFrame(
                    pixels=pixels,
                    source=number,
                    number=place,
                    run=run,
                    pts=int(index.pts[place]),
                    time_base=index.info.time_base,
                    arrived_ns=due_ns,
                )
        if damaged:
            tell("dropped", "damaged at the end", damaged)
        tell("ended", "ended")


def all_frames(
    decoder: Decoder[Array],
    index: StreamIndex,
    *,
    on_error: OnDamage = "skip",
    losses: list[Loss] | None = None,
) -> Iterator[tuple[int, Array | None]]:
    """Yield every frame in order; None in the place of one that is damaged.

    Args:
        decoder: Of the file; whoever opened it closes it.
        index: Its frames.
        on_error: `raise` ends it at damage, behind the frames before.
        losses: Frames that were left out are added to it.
    """
    for stretch in in_order(0, index):
        left, missing = deque(stretch.wanted), list[int]()
        try:
            for place, pixels in decoder.run(DecodeJob(stretch.wanted)):
                while left[0] != place:
                    missing.append(left.popleft())
                    if on_error == "skip":
                        yield missing[-1], None
                left.popleft()
                if on_error == "skip" or not missing:
                    yield place, pixels
        except DecodeError as error:
            if on_error == "raise":
                raise
            if losses is not None:
                losses += [Loss.at(index, k, str(error)) for k in (*missing, *left)]
        for place in left:
            yield place, None


def nanoseconds(index: StreamIndex, place: int) -> int:
    """Return how long after the first frame one is shown."""
    ticks = int(index.pts[place]) - int(index.pts[0])
    return round(ticks * index.info.time_base * 1_000_000_000)
