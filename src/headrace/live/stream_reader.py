"""Stream reader: decoded frames of a stream, with the arrival times of their packets."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast

import av
from av.container import InputContainer
from av.format import Flags
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from headrace.live.address import CameraAddress, NetworkAddress
from headrace.live.connect_errors import (
    BROKEN,
    NO_ANSWER,
    ConnectError,
    ConnectProblem,
    connect_problem_of,
    playlist_problem,
)
from headrace.live.live_source import EventKind
from headrace.live.open_options import (
    SourceOptions,
    camera_problem,
    check_device,
    ffmpeg_options,
)
from headrace.live.timestamp_repair import ArrivalClock, TimestampRepair
from headrace.runtime.clock import Clock
from headrace.runtime.stage import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.codec import VideoPacket, prepare
from headrace.video.pyav_version import INVALID_ARGUMENT
from headrace.video.reference_codec import ffmpeg_codec

LiveAddress = CameraAddress | NetworkAddress

DAMAGED: Final = "damaged"
"""Drop cause of frames that the decoder rejects or marks as corrupt."""
LATE: Final = "late"
"""Drop cause of frames skipped up to the next keyframe, to catch up."""
_LAG_WAIT_SECONDS: Final = 0.002
"""Min wait of a read for which no packet was ready, in seconds."""
NO_KEYFRAME: Final = "no keyframe"
"""Drop cause of frames before the first keyframe of a connection."""
_MAX_WITHOUT_KEYFRAME: Final = 600
"""Max packets skipped before a keyframe: streams with intra refresh have no keyframes."""
_LATE_SECONDS: Final = 1.0
"""Seconds behind the stream at which the decoder skips to a keyframe."""
_NO_STREAM: Final = (INVALID_ARGUMENT, av.error.InvalidDataError)
"""FFmpeg errors for a forbidden or unknown format."""
_MAX_PENDING: Final = 64
"""Max packets whose frames the decoder delays."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ReceivedFrame:
    """Decoded frame with the times of its packet."""

    frame: VideoFrame
    pts: int
    time_base: Fraction
    arrived_ns: int
    """Arrival of its packet; for a recording, the due time."""
    waited_seconds: float
    """Wait for its packet, or for the last packet before the frame was decoded."""
    is_gap: bool
    """Whether frames are missing before it."""
    captured_seconds: float | None

    @property
    def seconds(self) -> float:
        """Stream time."""
        return float(self.pts * self.time_base)


@dataclass(frozen=True, kw_only=True, slots=True)
class Connected:
    """First item of a connection: the stream is open."""

    codec: str
    is_recording: bool
    """Whether the stream has an end and is played by its timestamps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamEvent:
    """Event of the stream."""

    kind: EventKind
    words: str


DecodedItem = ReceivedFrame | DroppedItem | StreamEvent
StreamItem = Connected | DecodedItem


class _TimedPacket(NamedTuple):
    packet: VideoPacket
    arrived_ns: int
    waited_seconds: float
    """Duration of the read."""


def receive(
    address: LiveAddress, options: SourceOptions, waiter: Waiter
) -> Generator[StreamItem, None, None]:
    """Open a stream and yield its items until its end.

    Each FFmpeg call blocks for at most `options.open_timeout_seconds`; exceptions are a hung camera
    and a host-name lookup. `waiter` paces a recording.

    Raises:
        ConnectError: the stream cannot be opened, or the connection broke.
    """
    with closing(_open_container(address, options, waiter.clock)) as container:
        try:
            yield from _items(container, waiter)
        except av.error.FFmpegError as error:
            # Not chained: the error text contains the address with the password.
            is_broken = error.errno == errno.EIO
            problem = BROKEN if is_broken else _problem_of(address, error)
        else:
            return
    raise ConnectError(problem)


def _open_container(address: LiveAddress, options: SourceOptions, clock: Clock) -> InputContainer:
    if isinstance(address, CameraAddress):
        check_device(address.device)
    kind, ffmpeg = ffmpeg_options(address, options)
    start_ns = clock.now_ns()
    try:
        return av.open(
            address.url, format=kind, container_options=ffmpeg, metadata_errors="replace"
        )
    except (av.error.FFmpegError, OSError, ValueError) as error:
        problem = _problem_of(address, error)
        is_unknown = kind is None and isinstance(error, _NO_STREAM)
    # For RTSP, FFmpeg reports a timeout as invalid data.
    if (clock.now_ns() - start_ns) / 1e9 >= options.open_timeout_seconds:
        problem = NO_ANSWER
    elif address.trust is not None:
        problem = address.trust.problem(address.url, options.open_timeout_seconds) or problem
    if is_unknown:
        problem = playlist_problem(_first_bytes(address.url, ffmpeg)) or problem
    raise ConnectError(problem)


def _first_bytes(url: str, ffmpeg: dict[str, str]) -> bytes:
    """Request the address again; return the first bytes, b"" without a response."""
    options = {k: v for k, v in ffmpeg.items() if k != "format_whitelist"}
    try:
        with av.open(url, format="data", container_options=options) as container:
            return bytes(next(container.demux()))
    except (av.error.FFmpegError, OSError, ValueError, StopIteration):
        return b""


def _problem_of(address: LiveAddress, error: Exception) -> ConnectProblem:
    is_camera = isinstance(address, CameraAddress)
    return (camera_problem(error) if is_camera else None) or connect_problem_of(error)


def _items(container: InputContainer, waiter: Waiter) -> Iterator[StreamItem]:
    """Yield the items of an open container."""
    stream = _video_stream(container)
    is_recording = container.size > 0  # live streams have no size
    yield Connected(codec=stream.codec_context.name, is_recording=is_recording)
    lag = None if is_recording else DecodeLag(_LATE_SECONDS)
    items = _TimedDecoder(container, stream, lag).items(waiter.clock)
    yield from _in_real_time(items, waiter) if is_recording else items


def _in_real_time(items: Iterator[DecodedItem], waiter: Waiter) -> Iterator[DecodedItem]:
    """Yield the items of a recording, each frame when it is due."""
    start: tuple[int, float] | None = None
    for item in items:
        if isinstance(item, ReceivedFrame):
            if start is None or item.is_gap:
                start = waiter.clock.now_ns(), item.seconds
            waiter.until(start[0] + round((item.seconds - start[1]) * 1e9))
            item = replace(item, arrived_ns=waiter.clock.now_ns())
        yield item


class DecodeLag:
    """Detector of late decoding: compares stream time and wall time of packets that were ready.

    Without it, packets of a slow decoder would queue in the buffers of system and server, and
    frames would become older and older.
    """

    def __init__(self, limit_seconds: float) -> None:
        """Late starts at `limit_seconds` behind the stream, and ends at half of that."""
        self._limit_seconds = limit_seconds
        self._edge: tuple[float, int] | None = None
        self.is_late = False

    def add(self, seconds: float, arrived_ns: int, waited_seconds: float) -> None:
        """Add a packet: its stream time, its arrival, and the wait of its read."""
        if self._edge is None or waited_seconds >= _LAG_WAIT_SECONDS:
            self._edge = seconds, arrived_ns
        edge_seconds, edge_ns = self._edge
        behind_seconds = (arrived_ns - edge_ns) / 1e9 - (seconds - edge_seconds)
        threshold_seconds = self._limit_seconds / 2 if self.is_late else self._limit_seconds
        self.is_late = behind_seconds > threshold_seconds


class _TimedDecoder:
    """Decoder of packets into frames with repaired timestamps."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, lag: DecodeLag | None
    ) -> None:
        rate = stream.average_rate or stream.guessed_rate
        assert stream.time_base is not None
        self._container, self._stream = container, stream
        # For formats without timestamps, FFmpeg makes them up, at 25 frames per second.
        has_times = not container.format.flags & cast(int, Flags.no_timestamps.value)
        self._arrivals = None if lag is None or has_times else ArrivalClock()
        self._time_base = Fraction(stream.time_base)
        if self._arrivals is not None:
            self._time_base, lag = self._arrivals.time_base, None
        self._timestamps = TimestampRepair(self._time_base, Fraction(rate) if rate else None)
        self._codec = ffmpeg_codec(prepare(stream.codec_context))
        self._arrived: dict[int, int] = {}
        self._corrupt: set[int] = set()
        self._lag = lag
        self._packet_index = -1
        self._skipped = 0
        self._skips_for: str | None = NO_KEYFRAME
        self._waited_seconds = 0.0

    def items(self, clock: Clock) -> Iterator[DecodedItem]:
        """Yield the items of all packets, then the delayed frames of the decoder."""
        for read in _timed_packets(self._container, self._stream, clock):
            yield from self._take(read)
        yield from self._decoded(None, clock.now_ns())

    def _take(self, read: _TimedPacket) -> Iterator[DecodedItem]:
        """Yield the items of one packet."""
        self._packet_index += 1
        self._waited_seconds = read.waited_seconds
        packet = read.packet
        if self._is_skipped(read):
            yield DroppedItem(self._skips_for or LATE)
            return
        self._arrived[self._packet_index] = read.arrived_ns
        self._arrived.pop(self._packet_index - _MAX_PENDING, None)
        if packet.is_corrupt:
            self._corrupt.add(self._packet_index)
        yield from self._decoded(packet, read.arrived_ns)

    def _is_skipped(self, read: _TimedPacket) -> bool:
        """Return whether to skip a packet: before the first keyframe, or to catch up."""
        packet, lag = read.packet, self._lag
        if lag is not None and packet.pts is not None:
            seconds = float(packet.pts * self._time_base)
            lag.add(seconds, read.arrived_ns, read.waited_seconds)
        is_late = lag is not None and lag.is_late
        if is_late and self._skips_for is None:
            self._skips_for = LATE
            self._codec.context.flush_buffers()
        is_entry = packet.is_keyframe or self._skipped >= _MAX_WITHOUT_KEYFRAME
        if self._skips_for is not None and is_entry and not is_late:
            self._skips_for, self._skipped = None, 0
        self._skipped += self._skips_for is not None
        return self._skips_for is not None

    def _decoded(self, packet: VideoPacket | None, now_ns: int) -> Iterator[DecodedItem]:
        decoded = self._codec.decode(self._packet_index, packet)
        if packet is not None and decoded.reported and not decoded.shown:
            yield DroppedItem(DAMAGED)
        for packet_index, frame in decoded.shown:
            if packet_index in self._corrupt or packet_index in decoded.reported:
                self._corrupt.discard(packet_index)
                yield DroppedItem(DAMAGED)
            else:
                yield from self._repair_times(frame, self._arrived.pop(packet_index, now_ns))

    def _repair_times(self, frame: VideoFrame, arrived_ns: int) -> Iterator[DecodedItem]:
        pts = frame.pts if self._arrivals is None else self._arrivals.timestamp(arrived_ns)
        repaired = self._timestamps.repair(pts)
        if repaired.words:
            yield StreamEvent(kind="timestamps", words=repaired.words)
        # Microseconds of the sender's clock at pts 0, from RTCP; None before the first report, and
        # always with PyAV before 18.1.
        epoch = getattr(self._container, "start_time_realtime", None)
        captured = None
        if epoch is not None and repaired.is_given and self._arrivals is None:
            captured = epoch / 1e6 + float(repaired.pts * self._time_base)
        yield ReceivedFrame(
            frame=frame,
            pts=repaired.pts,
            time_base=self._time_base,
            arrived_ns=arrived_ns,
            waited_seconds=self._waited_seconds,
            is_gap=repaired.is_gap,
            captured_seconds=captured,
        )


def _timed_packets(
    container: InputContainer, stream: VideoStream, clock: Clock
) -> Iterator[_TimedPacket]:
    packets = container.demux(stream)
    while True:
        before_ns = clock.now_ns()
        packet: Any = next(packets, None)
        if packet is None:
            return
        now_ns = clock.now_ns()
        if packet.size:
            yield _TimedPacket(packet, now_ns, (now_ns - before_ns) / 1e9)


def _video_stream(container: InputContainer) -> VideoStream:
    stream = container.streams.best("video")
    if not isinstance(stream, VideoStream):
        kinds = ", ".join(dict.fromkeys(stream.type for stream in container.streams)) or "nothing"
        raise ConnectError(
            ConnectProblem(f"it sends no video ({kinds})", "give a stream with video")
        )
    if stream.codec_context is None:
        raise ConnectError(
            ConnectProblem("it sends video that FFmpeg cannot decode here", "send H.264 or HEVC")
        )
    return stream
