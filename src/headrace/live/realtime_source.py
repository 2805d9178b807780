"""Live source of an address; files and test patterns in real time, each frame at its due time."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count, cycle, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.frame_outputs import Array
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_decoder, open_index
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.errors import DecodeError
from headrace.live.address import Address, FileAddress, PatternAddress
from headrace.live.live_source import Event, LiveFrame, LiveSource, notifier
from headrace.live.network_source import NetworkSource
from headrace.live.open_options import SourceOptions
from headrace.live.stream_reader import DAMAGED
from headrace.planning.chunks import split_video
from headrace.profiling.session import Pace
from headrace.runtime.stage import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.frame_barcode import DARK, LIGHT, blocks_of, grid_of
from headrace.video.frame_format import FrameFormat
from headrace.video.frames import FrameLoss
from headrace.video.stream_index import StreamIndex

OnDamage = Literal["raise", "skip"]
"""Handling of a damaged frame in real time: end the source, or skip the frame. There is no
`conceal`: concealed frames are decoded too late, after the frames that depend on them."""


def live_source(
    address: Address,
    options: SourceOptions | None = None,
    store: IndexStore | None = None,
    *,
    on_error: OnDamage = "raise",
) -> LiveSource:
    """Return the live source of an address. Opens nothing.

    Args:
        address: Address from `parse_addresses`.
        options: Connection options of cameras and network streams; None: the defaults.
        store: Cache of indexes; None: the user's cache folder.
        on_error: Handling of damaged frames of a file; a stream always skips them.
    """
    if isinstance(address, FileAddress):
        return RealtimeFile(address, store, on_error=on_error)
    if isinstance(address, PatternAddress):
        return PatternSource(address)
    return NetworkSource(address, options or SourceOptions())


@dataclass(eq=False)
class RealtimeFile:
    """Video file in real time (open loop), decoded in one thread."""

    address: FileAddress
    store: IndexStore | None = None
    """Cache of indexes; None: the user's cache folder."""
    on_error: OnDamage = "raise"
    losses: list[FrameLoss] = field(default_factory=list)
    """Skipped frames, in order."""
    base: Pace = "schedule"

    @property
    def name(self) -> str:
        """Path of the file."""
        return self.address.name

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield each frame when it is due, and `DroppedItem` for a damaged one. See `LiveSource`.

        The schedule starts with the first decoded frame, so opening the file delays no frame.

        Raises:
            DecodeError: a frame is damaged and `on_error` is `raise`; the frames before it come
                first.
        """
        clock, notify = waiter.clock, notifier(number, waiter.clock, note)
        index = open_index(self.address.source, self.store)
        run, damaged, start_ns = 0, 0, None
        with closing(open_decoder(index)) as decoder:
            frames = all_frames(decoder, index, on_error=self.on_error, losses=self.losses)
            for frame_index, pixels in frames:
                if start_ns is None:
                    start_ns = clock.now_ns()
                    notify("joined", "joined")
                due_ns = start_ns + nanoseconds(index, frame_index)
                waiter.until(due_ns)
                if pixels is None:
                    damaged += 1
                    yield DroppedItem(DAMAGED)
                    continue
                if damaged:
                    notify("dropped", f"damaged before frame {frame_index}", damaged)
                run, damaged = run + (damaged > 0), 0
                yield LiveFrame(
                    pixels=pixels,
                    source=number,
                    number=frame_index,
                    run=run,
                    pts=int(index.pts[frame_index]),
                    time_base=index.info.time_base,
                    arrived_ns=due_ns,
                )
        if damaged:
            notify("dropped", "damaged at the end", damaged)
        notify("ended", "ended")


def all_frames(
    decoder: Decoder[Array],
    index: StreamIndex,
    *,
    on_error: OnDamage = "skip",
    losses: list[FrameLoss] | None = None,
) -> Iterator[tuple[int, Array | None]]:
    """Yield every frame index with its pixels, in order; None for a damaged frame.

    Args:
        decoder: Decoder of the file; closed by the caller.
        index: Index of the file.
        on_error: `raise`: DecodeError at the first damaged frame, after the frames before it.
        losses: Receives the skipped frames.
    """
    for gop_range in split_video(0, index):
        remaining, missing = deque(gop_range.wanted), list[int]()
        try:
            for frame_index, pixels in decoder.run(DecodeJob(gop_range.wanted)):
                while remaining[0] != frame_index:
                    missing.append(remaining.popleft())
                    if on_error == "skip":
                        yield missing[-1], None
                remaining.popleft()
                if on_error == "skip" or not missing:
                    yield frame_index, pixels
        except DecodeError as error:
            if on_error == "raise":
                raise
            if losses is not None:
                losses += [FrameLoss.at(index, k, str(error)) for k in (*missing, *remaining)]
        for frame_index in remaining:
            yield frame_index, None


def nanoseconds(index: StreamIndex, frame_index: int) -> int:
    """Return the presentation time of a frame after the first one, in ns."""
    ticks = int(index.pts[frame_index]) - int(index.pts[0])
    return round(ticks * index.info.time_base * 1_000_000_000)


_Decoded = tuple[StreamIndex, int, Array]


@dataclass(frozen=True, eq=False)
class LoadGenerator:
    """Load generator: videos in a loop, as a `LiveSource`.

    One thread decodes each frame when it is due and never earlier, as a camera's frame on arrival.
    All frames of a video have the size of its first frame.
    """

    indexes: Sequence[StreamIndex]
    """Indexes of the videos: at least one, each with frames."""
    num_frames: int | None = None
    """Number of frames; None: endless."""
    speed: float | None = 1.0
    """Factor on the frame rate: 2 is twice real time; None: full speed, without latency."""
    delay_seconds: float = 0.0
    """Delay of the schedule after the first frame, so that several sources are out of phase."""

    @property
    def name(self) -> str:
        """Path of the first video."""
        return str(self.indexes[0].source)

    @property
    def base(self) -> Pace:
        """`schedule`, or `full_speed` without a speed."""
        return "full_speed" if self.speed is None else "schedule"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None] = lambda event: None
    ) -> Generator[LiveFrame, None, None]:
        """Yield each frame when it is due: see `LiveSource.frames`. Reports no events.

        Raises:
            DecodeError: a frame is damaged, which would distort a measurement.
        """
        clock, start_ns = waiter.clock, 0
        with ExitStack() as opened:
            schedule = islice(self._schedule(opened), self.num_frames)
            for position, (run, media_ns, decode) in enumerate(schedule):
                due_ns = clock.now_ns()
                if position and self.speed is not None:
                    due_ns = start_ns + round(media_ns / self.speed)
                    waiter.until(due_ns)
                index, frame_index, pixels = decode()
                if not position:  # opening the file must delay no frame
                    due_ns = clock.now_ns()
                    start_ns = due_ns + round(self.delay_seconds * 1e9)
                yield LiveFrame(
                    pixels=pixels,
                    source=number,
                    number=position,
                    run=run,
                    segment=run,
                    pts=int(index.pts[frame_index]),
                    time_base=index.info.time_base,
                    arrived_ns=due_ns,
                )

    def _schedule(self, opened: ExitStack) -> Iterator[tuple[int, int, Callable[[], _Decoded]]]:
        """Yield the round, the due time in ns, and a decode function, for each frame."""
        decoders = [
            opened.enter_context(
                closing(open_decoder(index, FrameFormat(size=index.info.upright_size)))
            )
            for index in self.indexes
        ]
        round_start_ns = 0
        for run, (index, decoder) in enumerate(cycle(zip(self.indexes, decoders, strict=True))):
            frames = all_frames(decoder, index)
            for frame_index in range(len(index)):
                due_ns = round_start_ns + nanoseconds(index, frame_index)
                yield run, due_ns, partial(_decode_next, index, frames)
            round_start_ns += round(index.duration_seconds * 1e9)


def _decode_next(index: StreamIndex, frames: Iterator[tuple[int, Array | None]]) -> _Decoded:
    frame_index, pixels = next(frames)
    if pixels is None:
        raise DecodeError(
            f"frame {frame_index} of {index.source} is damaged; give an undamaged video, for "
            "comparable results",
            source=str(index.source),
        )
    return index, frame_index, pixels


_PERIOD = 256
"""Period of the background, in columns."""
_COLUMNS_PER_FRAME = 4
"""Motion of the background."""
_TINTS = ((1.0, 0.55, 0.2), (0.2, 1.0, 0.55), (0.55, 0.2, 1.0), (0.9, 0.9, 0.9))


class PatternSource:
    """Test pattern in real time: frame n is due n / rate seconds after the start (open loop)."""

    base: Pace = "schedule"

    def __init__(self, address: PatternAddress) -> None:
        """Prepare the pattern; frames are drawn on demand."""
        self._address = address

    @property
    def name(self) -> str:
        """Address of the pattern."""
        return self._address.name

    def draw(self, number: int) -> NDArray[np.uint8]:
        """Return frame `number`: uint8 [H, W, 3] in [0, 255], RGB.

        `headrace.testing.read_number` reads the number. Takes about 1 ms for 720p.
        """
        _, width = self._address.size
        first = number * _COLUMNS_PER_FRAME % _PERIOD
        frame: NDArray[np.uint8] = self._background[:, first : first + width].copy()
        for is_light, (rows, columns) in zip(blocks_of(number), self._grid, strict=True):
            frame[rows, columns] = LIGHT if is_light else DARK
        return frame

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield each frame when it is due. See `LiveSource`."""
        address, notify = self._address, notifier(number, waiter.clock, note)
        start_ns = waiter.clock.now_ns()
        notify("joined", "joined")
        for frame_index in count():
            if address.seconds is not None and frame_index >= address.seconds * address.rate:
                break
            due_ns = start_ns + round(frame_index * 1_000_000_000 / address.rate)
            waiter.until(due_ns)
            yield LiveFrame(
                pixels=self.draw(frame_index),
                source=number,
                number=frame_index,
                run=0,
                pts=frame_index,
                time_base=1 / address.rate,
                arrived_ns=due_ns,
            )
        notify("ended", "ended")

    @cached_property
    def _grid(self) -> list[tuple[slice, slice]]:
        return grid_of(self._address.size)

    @cached_property
    def _background(self) -> NDArray[np.uint8]:
        """Background, wider than a frame by one period; frames are slices of it."""
        height, width = self._address.size
        seed = self._address.seed
        y, x = np.ogrid[:height, : width + _PERIOD]
        wave = np.abs((x * 2 + seed * 37) % _PERIOD - _PERIOD // 2)
        wave = wave + np.abs((y + x + seed * 101) % _PERIOD - _PERIOD // 2)
        tint = np.array(_TINTS[seed % len(_TINTS)])
        background: NDArray[np.uint8] = (wave[..., None] * tint).astype(np.uint8)
        return background
