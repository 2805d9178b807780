"""Network source: camera or stream, with stall detection and reconnection."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from headrace.decode.converter import ArrayConverter
from headrace.errors import DecodeError, OpenError
from headrace.live.connect_errors import NO_ANSWER, ConnectError, ConnectProblem
from headrace.live.live_edge import LiveEdge
from headrace.live.live_source import Event, LiveFrame, Notify, notifier
from headrace.live.open_options import SourceOptions
from headrace.live.stream_reader import (
    DAMAGED,
    Connected,
    LiveAddress,
    ReceivedFrame,
    StreamEvent,
    StreamItem,
    receive,
)
from headrace.profiling.number_format import counted
from headrace.profiling.session import Pace
from headrace.runtime.queue import Closed
from headrace.runtime.stage import DroppedItem
from headrace.runtime.stage_executor import OVERFLOW
from headrace.runtime.waitable_source import ReaderThread, Waiter
from headrace.video.frame_format import FrameFormat
from headrace.video.packet_table import orientation_of

GRACE_SECONDS = 1.0
"""Seconds added to FFmpeg's timeout, so that FFmpeg reports the reason first."""
_STALL_INTERVALS = 2
"""Frame intervals without a frame that are a stall of a slow source."""


class Watchdog:
    """Watchdog of one connection: time limits for its opening, stalls and frames."""

    def __init__(self, options: SourceOptions, now_ns: int) -> None:
        """Start the time limit of the opening."""
        self._options = options
        self._activity_ns = now_ns
        self._limit_seconds = options.open_timeout_seconds + GRACE_SECONDS
        self._frame_seconds: float | None = None
        self._is_connected = self._is_stalled = False
        self.is_recording = False
        """Whether the stream has an end."""

    @property
    def until_ns(self) -> int | None:
        """Time limit of the next activity. None for a recording: its frames may be far apart, and
        FFmpeg's timeout limits its reads."""
        if self.is_recording:
            return None
        return self._activity_ns + round(self._limit_seconds * 1e9)

    @property
    def problem(self) -> ConnectProblem:
        """Problem of a connection that exceeded its limit."""
        if not self._is_connected:
            return NO_ANSWER
        words = f"no frame for {self._limit_seconds:g} s"
        return ConnectProblem(words, "check that the camera sends frames")

    def on_connected(self, now_ns: int, *, is_recording: bool) -> None:
        """Start the time limit of the first frame."""
        self._activity_ns, self._is_connected, self.is_recording = now_ns, True, is_recording
        self._limit_seconds = self._options.open_timeout_seconds

    def on_item(self, now_ns: int, frame_seconds: float | None = None) -> float | None:
        """Reset the time limit; return the seconds of a stall that ends now, else None.

        Args:
            now_ns: Current time.
            frame_seconds: Stream time of a frame; None: a dropped frame.
        """
        stalled_seconds = (now_ns - self._activity_ns) / 1e9 if self._is_stalled else None
        self._activity_ns, self._is_stalled = now_ns, False
        if frame_seconds is not None:
            last, self._frame_seconds = self._frame_seconds, frame_seconds
            interval_seconds = 0.0 if last is None else frame_seconds - last
            usual_seconds = max(self._options.stall_seconds, _STALL_INTERVALS * interval_seconds)
            self._limit_seconds = min(usual_seconds, self._options.open_timeout_seconds)
        return stalled_seconds

    def check_stall(self) -> str | None:
        """Return the description of a new stall; None: the connection exceeded its limit."""
        if self._frame_seconds is None or self._is_stalled:
            return None
        words = f"no frame for {self._limit_seconds:g} s"
        self._is_stalled = True
        self._limit_seconds = self._options.open_timeout_seconds
        return words


_CLOSED = ConnectProblem("the other side closed the connection", "check the log of the server")


@dataclass(frozen=True)
class NetworkSource:
    """A camera or network stream, read in its own thread."""

    address: LiveAddress
    options: SourceOptions
    base: Pace = "arrival"

    @property
    def name(self) -> str:
        """Name for messages, without credentials."""
        return self.address.name

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield frames on arrival, across reconnections. See `LiveSource`."""
        return _ReconnectLoop(self.address, self.options, number, waiter, note).frames()


class _ReconnectLoop:
    """All connections of one source."""

    def __init__(
        self,
        address: LiveAddress,
        options: SourceOptions,
        number: int,
        waiter: Waiter,
        note: Callable[[Event], None],
    ) -> None:
        self._address = address
        self._options = options
        self._source = number
        self._waiter = waiter
        self._clock = waiter.clock
        self._notify = notifier(number, waiter.clock, note)
        self._frame_builder = _FrameBuilder(address.name, number, self._notify)
        self._attempt = 0
        self._codec: str | None = None
        self._lost_ns: int | None = None
        self._last_wait_words = ""
        self._live_edge = self._new_live_edge()
        self._has_joined = False

    def frames(self) -> Iterator[LiveFrame | DroppedItem]:
        while True:
            reader: ReaderThread[StreamItem] = ReaderThread(
                f"source {self._source}",
                partial(receive, self._address, self._options),
                self._waiter,
                keep=self._options.keep,
                instead=lambda item: (
                    DroppedItem(OVERFLOW) if isinstance(item, ReceivedFrame) else None
                ),
            )
            try:
                yield from self._follow_connection(reader)
            except ConnectError as failed:
                problem = failed.problem
            else:
                self._notify("ended", "ended")
                return
            finally:
                reader.stop()
            self._wait_before_next(problem)

    def _follow_connection(
        self, reader: ReaderThread[StreamItem]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Yield the frames of one connection until its end.

        Raises:
            ConnectError: the connection failed.
        """
        watch = Watchdog(self._options, self._clock.now_ns())
        self._frame_builder.connect()
        self._has_joined = False
        self._live_edge = self._new_live_edge()
        while True:
            try:
                item = reader.get(_earliest(watch.until_ns, self._live_edge.until_ns))
            except TimeoutError:
                if not self._live_edge.is_over:
                    yield from self._leave_live_edge(self._live_edge.end())
                    continue
                words = watch.check_stall()
                if words is None:
                    raise ConnectError(watch.problem) from None
                self._notify("stalled", words)
                continue
            except Closed:
                if not self._live_edge.is_over:
                    yield from self._leave_live_edge(self._live_edge.end())
                if watch.is_recording and reader.error is None:
                    return
                raise (reader.error or ConnectError(_CLOSED)) from None
            if isinstance(item, Connected):
                self._on_connected(item, watch)
            elif isinstance(item, StreamEvent):
                self._notify(item.kind, item.words)
            else:
                yield from self._on_item(item, watch)

    def _on_connected(self, connected: Connected, watch: Watchdog) -> None:
        watch.on_connected(self._clock.now_ns(), is_recording=connected.is_recording)
        if self._codec not in (None, connected.codec):
            self._notify("resized", f"the codec changed from {self._codec} to {connected.codec}")
        self._codec = connected.codec
        if connected.is_recording:
            self._live_edge.end()
            self._notify_joined("joined a recording, played in real time", 0)

    def _on_item(
        self, item: ReceivedFrame | DroppedItem, watch: Watchdog
    ) -> Iterator[LiveFrame | DroppedItem]:
        self._attempt = 0
        seconds = item.seconds if isinstance(item, ReceivedFrame) else None
        stalled_seconds = watch.on_item(self._clock.now_ns(), seconds)
        if stalled_seconds is not None:
            self._notify("resumed", f"resumed after {stalled_seconds:.1f} s")
            # The server may have buffered frames during the stall.
            self._live_edge = self._new_live_edge()
        was_over = self._live_edge.is_over
        ready = self._live_edge.take(item)
        if was_over or not self._live_edge.is_over:
            yield from map(self._frame_builder.build, ready)
        else:
            yield from self._leave_live_edge(ready)

    def _leave_live_edge(
        self, ready: list[ReceivedFrame | DroppedItem]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """Report the end of the search for the live edge, and yield the buffered frames."""
        behind, dropped = self._live_edge.behind_milliseconds, self._live_edge.dropped
        if self._has_joined:
            if dropped:
                delay = f"{behind} ms behind after the stall" if behind else "after the stall"
                words = f"{delay}; {counted(dropped, 'frame')} dropped"
                self._notify("dropped", words, dropped)
        elif ready or dropped:
            words = f"joined {behind} ms behind" if behind else "joined"
            if dropped:
                words += f"; {counted(dropped, 'frame')} of the backlog dropped"
            self._notify_joined(words, dropped)
        yield from map(self._frame_builder.build, ready)

    def _notify_joined(self, words: str, frames: int) -> None:
        self._has_joined = True
        if self._lost_ns is None:
            self._notify("joined", words, frames)
            return
        seconds = (self._clock.now_ns() - self._lost_ns) / 1e9
        self._lost_ns = None
        self._notify("reconnected", f"reconnected after {seconds:.1f} s: {words}", frames)

    def _new_live_edge(self) -> LiveEdge:
        # Released frames go to the queue at once, so no more than it holds.
        return LiveEdge(self._options.backlog_seconds, self._options.keep)

    def _wait_before_next(self, problem: ConnectProblem) -> None:
        """Wait for the next attempt.

        Raises:
            OpenError: the source is given up.
        """
        is_first = not self._frame_builder.has_frames
        if is_first and not self._options.wait_for_source and not problem.is_lasting:
            raise self._error(problem, ", or wait for it (--wait-for-source)")
        if problem.is_lasting:
            raise self._error(problem)
        seconds = self._options.reconnect.before(self._attempt)
        if seconds is None:
            raise self._error(problem, f"; {self._attempt} consecutive attempts failed")
        if self._lost_ns is None and not is_first:
            self._lost_ns = self._clock.now_ns()
            self._notify("disconnected", f"lost: {problem.words}")
        elif is_first and problem.words != self._last_wait_words:
            self._notify("disconnected", f"waiting for it: {problem.words}")
        self._last_wait_words = problem.words
        self._attempt += 1
        self._waiter.pause(seconds)

    def _error(self, problem: ConnectProblem, more: str = "") -> OpenError:
        name, hint = self._address.name, self._address.hint
        action = "open" if not self._frame_builder.has_frames else "continue"
        message = f"cannot {action} {name}: {problem.words}; {problem.advice}{more}{hint}"
        return OpenError(message, source=name)


class _FrameBuilder:
    """Builder of live frames from received ones: number, run, segment and pixels."""

    def __init__(self, name: str, source: int, notify: Notify) -> None:
        self._name = name
        self._source = source
        self._notify = notify
        self._number = self._run = self._segment = self._damaged = 0
        self._is_gap = False
        self._last_pts: int | None = None
        self._last_size: tuple[int, int] | None = None
        self._converter: ArrayConverter | None = None
        self.has_frames = False
        """Whether a frame was built."""

    def connect(self) -> None:
        """Start a new connection, after a gap."""
        self._is_gap = True
        self._last_pts = None
        self._converter = None

    def build(self, item: ReceivedFrame | DroppedItem) -> LiveFrame | DroppedItem:
        result = self._frame(item) if isinstance(item, ReceivedFrame) else item
        self._number += 1
        if isinstance(result, DroppedItem):
            self._is_gap = True
            self._damaged += result.cause == DAMAGED
        elif self._damaged:
            words = f"{counted(self._damaged, 'damaged frame')} skipped"
            self._notify("dropped", words, self._damaged)
            self._damaged = 0
        return result

    def _frame(self, item: ReceivedFrame) -> LiveFrame | DroppedItem:
        if self._converter is None:
            self._converter = ArrayConverter(FrameFormat(), orientation_of(item.frame), self._name)
        try:
            pixels = self._converter.convert(item.frame, None)
        except DecodeError as error:
            return DroppedItem(DAMAGED, error)
        height, width, _ = pixels.shape
        if self._last_size is not None and self._last_size != (height, width):
            old_size = "x".join(map(str, self._last_size))
            self._notify("resized", f"frames changed from {old_size} to {height}x{width}")
            self._is_gap = True
        self._last_size = height, width
        if self.has_frames and (self._is_gap or item.is_gap):
            self._run += 1
        if self.has_frames and (self._last_pts is None or item.pts <= self._last_pts):
            self._segment += 1
        self._is_gap, self.has_frames, self._last_pts = False, True, item.pts
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


def _earliest(*times_ns: int | None) -> int | None:
    return min((time_ns for time_ns in times_ns if time_ns is not None), default=None)
