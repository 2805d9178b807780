"""A source that is connected to: watched while it sends, connected to again when it is lost."""

from collections.abc import Callable, Iterator
from functools import partial

from headrace.decode.converter import ArrayConverter
from headrace.errors import DecodeError, OpenError
from headrace.live.connect_errors import NO_ANSWER, ConnectProblem, Failed
from headrace.live.live_edge import LiveEdge
from headrace.live.open_options import OpenOptions
from headrace.live.source import Event, EventKind, LiveFrame
from headrace.live.source_options import SourceOptions
from headrace.live.stream_reader import DAMAGED, Came, Connected, Received, StreamEvent, receive
from headrace.profiling.session import Pace
from headrace.runtime.item import DroppedItem
from headrace.runtime.queue import Closed
from headrace.runtime.stage_executor import OVERFLOW
from headrace.runtime.waitable_source import ReaderThread, Waiter
from headrace.video.frame_format import FrameFormat
from headrace.video.packet_table import orientation_of

GRACE_SECONDS = 1.0
"""Beyond the time limit of FFmpeg's reads, so that its own words are heard where it has some."""
_INTERVALS = 2
"""Between frames, that a slow source may be silent for before it is said to stall."""


class Watchdog:
    """Watches one connection, by the clock of the pipeline.

    First it must open; then frames must come: where none does, the source is said to stall, and
    when its time is up the connection is given up.
    """

    def __init__(self, options: SourceOptions, now_ns: int) -> None:
        """The connection is being made."""
        self._options = options
        self._heard_ns = now_ns
        self._limit_seconds = options.open_timeout_seconds + GRACE_SECONDS
        self._frame_seconds: float | None = None
        self._is_connected = self._is_stalled = False
        self.is_recording = False
        """What is connected to has an end."""

    @property
    def until_ns(self) -> int | None:
        """When something must have come. None for a recording, whose frames may lie far apart:
        there FFmpeg sees to it that reading ends."""
        if self.is_recording:
            return None
        return self._heard_ns + round(self._limit_seconds * 1e9)

    @property
    def trouble(self) -> ConnectProblem:
        """Why the connection is given up when its time is up."""
        if not self._is_connected:
            return NO_ANSWER
        words = f"no frame for {self._limit_seconds:g} s"
        return ConnectProblem(words, "see whether the camera sends")

    def connected(self, now_ns: int, *, is_recording: bool) -> None:
        """The connection is open; its first frame has as long again."""
        self._heard_ns, self._is_connected, self.is_recording = now_ns, True, is_recording
        self._limit_seconds = self._options.open_timeout_seconds

    def heard(self, now_ns: int, frame_seconds: float | None = None) -> float | None:
        """Something came; returns the seconds of a stall that is over by that.

        Args:
            now_ns: When.
            frame_seconds: Its place on the timeline of the stream, where it is a frame.
        """
        stalled_seconds = (now_ns - self._heard_ns) / 1e9 if self._is_stalled else None
        self._heard_ns, self._is_stalled = now_ns, False
        if frame_seconds is not None:
            last, self._frame_seconds = self._frame_seconds, frame_seconds
            interval_seconds = 0.0 if last is None else frame_seconds - last
            usual_seconds = max(self._options.stall_seconds, _INTERVALS * interval_seconds)
            self._limit_seconds = min(usual_seconds, self._options.open_timeout_seconds)
        return stalled_seconds

    def stalls(self) -> str | None:
        """Returns words for a stall when the moment has come; None: the connection's time is up."""
        if self._frame_seconds is None or self._is_stalled:
            return None
        words = f"no frame for {self._limit_seconds:g} s"
        self._is_stalled = True
        self._limit_seconds = self._options.open_timeout_seconds
        return words


_CLOSED = ConnectProblem("the other side closed the connection", "see the log of the server")


class NetworkSource:
    """A camera or a network stream. What blocks is read in a thread of its own."""

    base: Pace = "arrival"

    def __init__(self, opening: OpenOptions, options: SourceOptions) -> None:
        """Open nothing yet."""
        self._opening = opening
        self._options = options

    @property
    def name(self) -> str:
        """For a reader, without credentials."""
        return self._opening.name

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield its frames as they come, over all reconnections. See `LiveSource`."""
        return _Life(self._opening, self._options, number, waiter, note).frames()


class _Life:
    """One source from its first connection to its end."""

    def __init__(
        self,
        opening: OpenOptions,
        options: SourceOptions,
        number: int,
        waiter: Waiter,
        note: Callable[[Event], None],
    ) -> None:
        self._opening = opening
        self._options = options
        self._source = number
        self._waiter = waiter
        self._clock = waiter.clock
        self._note = note
        self._emitting = _Emitting(opening.name, number, self._tell)
        self._attempt = 0
        self._codec: str | None = None
        self._lost_ns: int | None = None
        self._words_of_wait = ""
        self._joining = self._new_joining()
        self._has_joined = False

    def frames(self) -> Iterator[LiveFrame | DroppedItem]:
        while True:
            reader: ReaderThread[Came] = ReaderThread(
                f"source {self._source}",
                partial(receive, self._opening, self._options),
                self._waiter,
                keep=self._options.keep,
                instead=_instead,
            )
            try:
                yield from self._followed(reader)
            except Failed as failed:
                trouble = failed.trouble
            else:
                self._tell("ended", "ended")
                return
            finally:
                reader.stop()
            self._wait_before_next(trouble)

    def _followed(self, reader: ReaderThread[Came]) -> Iterator[LiveFrame | DroppedItem]:
        """Yield the frames of one connection until its end; raises Failed."""
        watch = Watchdog(self._options, self._clock.now_ns())
        self._emitting.connect()
        self._has_joined = False
        self._joining = self._new_joining()
        while True:
            try:
                item = reader.get(_first(watch.until_ns, self._joining.until_ns))
            except TimeoutError:
                if not self._joining.is_over:
                    yield from self._joined(self._joining.end())
                    continue
                words = watch.stalls()
                if words is None:
                    raise Failed(watch.trouble) from None
                self._tell("stalled", words)
                continue
            except Closed:
                if not self._joining.is_over:
                    yield from self._joined(self._joining.end())
                if watch.is_recording and reader.error is None:
                    return
                raise (reader.error or Failed(_CLOSED)) from None
            if isinstance(item, Connected):
                self._connected(item, watch)
            elif isinstance(item, StreamEvent):
                self._tell(item.kind, item.words)
            else:
                yield from self._came(item, watch)

    def _connected(self, connected: Connected, watch: Watchdog) -> None:
        watch.connected(self._clock.now_ns(), is_recording=connected.is_recording)
        if self._codec not in (None, connected.codec):
            self._tell("resized", f"the codec is {connected.codec} now, it was {self._codec}")
        self._codec = connected.codec
        if connected.is_recording:
            self._joining.end()
            self._tell_joined("joined a recording; it is played in real time", 0)

    def _came(
        self, item: Received | DroppedItem, watch: Watchdog
    ) -> Iterator[LiveFrame | DroppedItem]:
        self._attempt = 0
        seconds = item.seconds if isinstance(item, Received) else None
        stalled_seconds = watch.heard(self._clock.now_ns(), seconds)
        if stalled_seconds is not None:
            self._tell("resumed", f"resumed after {stalled_seconds:.1f} s")
            # What the server kept meanwhile is a backlog like the first.
            self._joining = self._new_joining()
        was_over = self._joining.is_over
        ready = self._joining.take(item)
        if was_over or not self._joining.is_over:
            yield from self._emitted(ready)
        else:
            yield from self._joined(ready)

    def _joined(self, ready: list[Received | DroppedItem]) -> Iterator[LiveFrame | DroppedItem]:
        """Yield what joining held back, after the news that it is over."""
        behind, dropped = self._joining.behind_milliseconds, self._joining.dropped
        if self._has_joined:
            if dropped:
                late = f"{behind} ms behind after the stall" if behind else "after the stall"
                words = f"{late}; {_frames(dropped)} dropped"
                self._tell("dropped", words, dropped)
        elif ready or dropped:
            words = f"joined {behind} ms behind" if behind else "joined"
            if dropped:
                words += f"; {_frames(dropped)} of the backlog dropped"
            self._tell_joined(words, dropped)
        yield from self._emitted(ready)

    def _emitted(self, ready: list[Received | DroppedItem]) -> Iterator[LiveFrame | DroppedItem]:
        for item in ready:
            yield self._emitting.emit(item)

    def _tell_joined(self, words: str, frames: int) -> None:
        self._has_joined = True
        if self._lost_ns is None:
            self._tell("joined", words, frames)
            return
        seconds = (self._clock.now_ns() - self._lost_ns) / 1e9
        self._lost_ns = None
        self._tell("reconnected", f"reconnected after {seconds:.1f} s: {words}", frames)

    def _new_joining(self) -> LiveEdge[Received]:
        # It hands over all it kept at once, and there must be room for that.
        return LiveEdge(self._options.backlog_seconds, self._options.keep)

    def _wait_before_next(self, trouble: ConnectProblem) -> None:
        """Raises OpenError where there is no next attempt."""
        is_first = not self._emitting.has_begun
        if is_first and not self._options.wait_for_source and not trouble.is_lasting:
            raise self._error(trouble, ", or have it waited for (--wait-for-source)")
        if trouble.is_lasting:
            raise self._error(trouble)
        seconds = self._options.reconnect.before(self._attempt)
        if seconds is None:
            raise self._error(trouble, f"; {self._attempt} attempts in a row failed")
        if self._lost_ns is None and not is_first:
            self._lost_ns = self._clock.now_ns()
            self._tell("disconnected", f"lost: {trouble.words}")
        elif is_first and trouble.words != self._words_of_wait:
            self._tell("disconnected", f"waiting for it: {trouble.words}")
        self._words_of_wait = trouble.words
        self._attempt += 1
        self._waiter.pause(seconds)

    def _error(self, trouble: ConnectProblem, more: str = "") -> OpenError:
        name = self._opening.name
        hint = self._opening.hint
        doing = "open" if not self._emitting.has_begun else "go on with"
        message = f"cannot {doing} {name}: {trouble.words}; {trouble.advice}{more}{hint}"
        return OpenError(message, source=name)

    def _tell(self, kind: EventKind, words: str, frames: int = 0) -> None:
        now_ns = self._clock.now_ns()
        event = Event(at_ns=now_ns, source=self._source, kind=kind, words=words, frames=frames)
        self._note(event)


class _Emitting:
    """Numbers what came, and makes pixels of it."""

    def __init__(self, name: str, source: int, tell: Callable[[EventKind, str, int], None]) -> None:
        self._name = name
        self._source = source
        self._tell = tell
        self._number = self._run = self._segment = self._damaged = 0
        self._is_gap = False
        self._last_pts: int | None = None
        self._size: tuple[int, int] | None = None
        self._converter: ArrayConverter | None = None
        self.has_begun = False
        """A frame was emitted."""

    def connect(self) -> None:
        """What comes next does not follow on what came before."""
        self._is_gap = True
        self._last_pts = None
        self._converter = None

    def emit(self, item: Received | DroppedItem) -> LiveFrame | DroppedItem:
        made = self._frame(item) if isinstance(item, Received) else item
        self._number += 1
        if isinstance(made, DroppedItem):
            self._is_gap = True
            self._damaged += made.cause == DAMAGED
        elif self._damaged:
            words = f"{_frames(self._damaged, 'damaged frame')} left out"
            self._tell("dropped", words, self._damaged)
            self._damaged = 0
        return made

    def _frame(self, item: Received) -> LiveFrame | DroppedItem:
        if self._converter is None:
            self._converter = ArrayConverter(FrameFormat(), orientation_of(item.frame), self._name)
        try:
            pixels = self._converter.convert(item.frame, None)
        except DecodeError as error:
            return DroppedItem(DAMAGED, error)
        height, width, _ = pixels.shape
        if self._size is not None and self._size != (height, width):
            was = "x".join(map(str, self._size))
            self._tell("resized", f"frames are {height}x{width} now, they were {was}", 0)
            self._is_gap = True
        self._size = height, width
        if self.has_begun and (self._is_gap or item.is_gap):
            self._run += 1
        if self.has_begun and (self._last_pts is None or item.pts <= self._last_pts):
            self._segment += 1
        self._is_gap, self.has_begun, self._last_pts = False, True, item.pts
        return LiveFrame(
            pixels=pixels,
            source=self._source,
            number=self._number,
            run=self._run,
            segment=self._segment,
            pts=item.pts,
            time_base=item.time_base,
            arrived_ns=item.arrived_ns,
            captured_seconds=item.captured_seconds,
        )


def _frames(count: int, what: str = "frame") -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _instead(item: Came) -> Came | None:
    return DroppedItem(OVERFLOW) if isinstance(item, Received) else None


def _first(*moments_ns: int | None) -> int | None:
    return min((each for each in moments_ns if each is not None), default=None)
