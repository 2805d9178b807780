"""The packets of a file, from the start or from any GOP on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from headrace.decode.protocol import DecodeCounters
from headrace.errors import DecodeError
from headrace.video.codec import VideoPacket, packets_of
from headrace.video.container import open_container
from headrace.video.packet_table import length_of, signature_of
from headrace.video.stream_index import StreamIndex

_AIMS = (("gop_pts", 0), ("gop_dts", 0), ("gop_dts", 1), ("gop_dts", 3))
"""By which time to seek, and how many keyframes before: where a container lands behind its aim."""


class WrongPacketError(DecodeError):
    """After a seek the container gives other packets than it gave in order."""


class Demuxer:
    """An open file that stands before a packet. Not thread-safe."""

    def __init__(self, index: StreamIndex, counters: DecodeCounters) -> None:
        """Open nothing yet. What is read is added to `counters`."""
        self._index = index
        self._counters = counters
        self._container: InputContainer | None = None
        self._stream: VideoStream | None = None
        self._packets: Iterator[VideoPacket | None] = iter(())
        self._is_sought = False
        self._can_seek = index.is_seekable
        self._aim = 0
        """What found the packet last."""
        self.first: VideoPacket | None = None
        """The first packet of the stream, with what is said there once."""
        self.next_ordinal: int | None = None
        """Ordinal of the next packet; None: nowhere, or behind the end."""

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._container is not None

    @property
    def stream(self) -> VideoStream:
        """The stream; opens the file if it is not."""
        if self._stream is None:
            self._open()
        assert self._stream is not None
        return self._stream

    def go_to(self, gop: int) -> None:
        """Stand before the packet that a GOP is decoded from."""
        ordinal = int(self._index.gop_ordinal[gop])
        if self.next_ordinal != ordinal and not self._seek(gop):
            if self.next_ordinal is None or self.next_ordinal > ordinal:
                self.close()
                self._open()
            for _ in range(self.next_ordinal or 0, ordinal):
                next(self._packets, None)
                self._counters.packets_read += 1
        self.next_ordinal = ordinal

    def read(self) -> VideoPacket | None:
        """Return the next packet; None at the end, after which the feed stands nowhere.

        Raises:
            WrongPacketError: it is another than in order; from now on the feed reads in order.
            ScanError: reading fails.
        """
        assert self.next_ordinal is not None
        packet = next(self._packets, None)
        if packet is None:
            self.next_ordinal = None
            return None
        self._counters.packets_read += 1
        self._counters.bytes_read += packet.size
        ordinal = self.next_ordinal
        # Its length is enough, as the packet that the seek led to was known by its bytes too.
        if self._is_sought and (
            ordinal >= self._index.packets
            or packet.size != length_of(int(self._index.signature[ordinal]))
        ):
            self._can_seek = False
            self.close()
            raise WrongPacketError(
                f"packet {ordinal} of {self._index.source} is another after a seek than in order",
                source=str(self._index.source),
            )
        self.next_ordinal = ordinal + 1
        return packet

    def lose(self) -> None:
        """Stand nowhere."""
        self.next_ordinal = None

    def close(self) -> None:
        """Release the file."""
        self.next_ordinal = None
        self._packets = iter(())
        self._stream = self.first = None
        if self._container is not None:
            self._container.close()
            self._container = None

    def _open(self) -> None:
        self._container, self._stream = open_container(self._index.source)
        self._counters.opens += 1
        self._stand(self._packets_here(), is_sought=False)
        self.first = next(self._packets)
        self._packets = chain([self.first], self._packets)
        self.next_ordinal = 0

    def _seek(self, gop: int) -> bool:
        """Seek to the packet that a GOP is decoded from; False when it is not found.

        The container's own seek table is not trusted: the packet must be the very one.
        """
        if self._container is None:
            self._open()
            if self._index.gop_ordinal[gop] == 0:
                return True
        if not self._can_seek or self._container is None:
            return False
        for aim in sorted(range(len(_AIMS)), key=lambda aim: aim != self._aim):
            target = self._target(gop, aim)
            self.next_ordinal = None
            self._counters.seeks += 1
            try:
                self._container.seek(target, stream=self._stream, backward=True)
            except av.error.FFmpegError:
                continue
            self._stand(self._packets_here(), is_sought=True)
            if self._find(gop):
                self._aim = aim
                return True
        return False

    def _target(self, gop: int, aim: int) -> int:
        """Return the time to seek to."""
        times, gops_back = _AIMS[aim]
        return int(getattr(self._index, times)[max(0, gop - gops_back)])

    def _find(self, gop: int) -> bool:
        """Read on until the packet is next; False where it was passed, or is not certain."""
        index = self._index
        signature = int(index.signature[index.gop_ordinal[gop]])
        position, dts = int(index.gop_position[gop]), int(index.gop_dts[gop])
        is_unique = index.is_unique[index.gop_ordinal[gop]]
        for packet in self._packets:
            if packet is None:
                return False
            is_there = position >= 0 and packet.pos == position
            is_there |= index.has_sure_times and packet.pts == index.gop_pts[gop]
            if signature_of(memoryview(packet)) == signature and (is_unique or is_there):
                self._packets = chain([packet], self._packets)
                return True
            if position >= 0 and packet.pos is not None and packet.pos > position:
                return False
            if position < 0 and packet.dts is not None and packet.dts > dts:
                return False
            self._counters.packets_read += 1
        return False

    def _packets_here(self) -> Iterator[VideoPacket | None]:
        assert self._container is not None
        assert self._stream is not None
        return packets_of(self._container, self._stream, self._index.source)

    def _stand(self, packets: Iterator[VideoPacket | None], *, is_sought: bool) -> None:
        self._packets = packets
        self._is_sought = is_sought
