"""A file in real time: each frame is due at its pts, however late the reader is (open loop)."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle, islice
from typing import Literal

from headrace.decode.frame_outputs import Array
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_decoder, open_index
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.errors import DecodeError
from headrace.live.address import FileAddress
from headrace.live.source import Event, EventKind, LiveFrame
from headrace.live.stream_reader import DAMAGED
from headrace.planning.gop_ranges import split_video
from headrace.profiling.session import Pace
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.frame_format import FrameFormat
from headrace.video.frame_loss import FrameLoss
from headrace.video.stream_index import StreamIndex

OnDamage = Literal["raise", "skip"]
"""What a damaged frame does that is due in real time: it ends the source, or it is left out. What
FFmpeg shows instead is known only behind the frames that lean on it, which is too late."""


class RealtimeFile:
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
        self.losses: list[FrameLoss] = []
        """Frames that were left out, in order."""

    @property
    def name(self) -> str:
        """For a reader."""
        return self._address.name

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield each frame when it is due, and `DroppedItem` for a damaged one. See `LiveSource`.

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
                    yield DroppedItem(DAMAGED)
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
    losses: list[FrameLoss] | None = None,
) -> Iterator[tuple[int, Array | None]]:
    """Yield every frame in order; None in the place of one that is damaged.

    Args:
        decoder: Of the file; whoever opened it closes it.
        index: Its frames.
        on_error: `raise` ends it at damage, behind the frames before.
        losses: Frames that were left out are added to it.
    """
    for stretch in split_video(0, index):
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
                losses += [FrameLoss.at(index, k, str(error)) for k in (*missing, *left)]
        for place in left:
            yield place, None


def nanoseconds(index: StreamIndex, place: int) -> int:
    """Return how long after the first frame one is shown."""
    ticks = int(index.pts[place]) - int(index.pts[0])
    return round(ticks * index.info.time_base * 1_000_000_000)


_Drawn = tuple[StreamIndex, int, Array]


class LoadGenerator:
    """Videos one after the other, from the start again after the last: a `LiveSource`.

    A frame is decoded when it is due, as one of a camera is when it comes, and never before; one
    thread decodes. All frames of a video have the size of its first one.
    """

    def __init__(
        self,
        indexes: Sequence[StreamIndex],
        *,
        frames: int | None = None,
        speed: float | None = 1.0,
        delay_seconds: float = 0.0,
    ) -> None:
        """Open nothing yet.

        Args:
            indexes: Of the videos, at least one; each has a length.
            frames: Where to stop; None never does.
            speed: Of their timetable: 2 is twice as fast as they would be played; None reads as
                fast as frames are taken, which has no latency.
            delay_seconds: How much later than its first frame its timetable begins, so that
                several sources do not send at the same moments.
        """
        self._indexes = indexes
        self._frames = frames
        self._speed = speed
        self._delay_seconds = delay_seconds

    @property
    def name(self) -> str:
        """The first path."""
        return str(self._indexes[0].source)

    @property
    def base(self) -> Pace:
        """`schedule` but at full speed."""
        return "full_speed" if self._speed is None else "schedule"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None] = lambda event: None
    ) -> Generator[LiveFrame, None, None]:
        """Yield each frame when it is due: see `LiveSource.frames`; nothing is noted.

        Raises:
            DecodeError: a frame is damaged: what is measured would differ with each way.
        """
        clock, start_ns = waiter.clock, 0
        with ExitStack() as opened:
            draws = islice(self._draws(opened), self._frames)
            for sent, (run, media_ns, draw) in enumerate(draws):
                due_ns = clock.now_ns()
                if sent and self._speed is not None:
                    due_ns = start_ns + round(media_ns / self._speed)
                    waiter.until(due_ns)
                index, place, pixels = draw()
                if not sent:  # what opening took makes no frame late
                    due_ns = clock.now_ns()
                    start_ns = due_ns + round(self._delay_seconds * 1e9)
                yield LiveFrame(
                    pixels=pixels,
                    source=number,
                    number=sent,
                    run=run,
                    segment=run,
                    pts=int(index.pts[place]),
                    time_base=index.info.time_base,
                    arrived_ns=due_ns,
                )

    def _draws(self, opened: ExitStack) -> Iterator[tuple[int, int, Callable[[], _Drawn]]]:
        """Yield round, place on the timetable and what decodes the frame, once for each frame."""
        decoders = [
            opened.enter_context(
                closing(open_decoder(index, FrameFormat(size=index.info.upright_size)))
            )
            for index in self._indexes
        ]
        began_ns = 0
        for run, (index, decoder) in enumerate(cycle(zip(self._indexes, decoders, strict=True))):
            frames = all_frames(decoder, index)
            for place in range(len(index)):
                yield run, began_ns + nanoseconds(index, place), partial(_draw, index, frames)
            began_ns += round(index.duration_seconds * 1e9)


def _draw(index: StreamIndex, frames: Iterator[tuple[int, Array | None]]) -> _Drawn:
    place, pixels = next(frames)
    if pixels is None:
        raise DecodeError(
            f"frame {place} of {index.source} is damaged; give a video that is whole: ways to read "
            "it could not be compared",
            source=str(index.source),
        )
    return index, place, pixels
