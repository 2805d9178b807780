"""Files played again and again, at any speed: the load that a benchmark offers a pipeline."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle, islice

from headrace.decode.open import open_decoder
from headrace.decode.pixels import Array
from headrace.errors import DecodeError
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.live.paced import all_frames, nanoseconds
from headrace.profiling.session import Pace
from headrace.runtime.waiter import Waiter
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

_Drawn = tuple[StreamIndex, int, Array]


class Replayed:
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
                closing(open_decoder(index, FrameShape(size=index.info.upright_size)))
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
