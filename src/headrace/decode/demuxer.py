"""Demuxer: reads the packets of one stream, from its start or from any GOP."""

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

_SEEK_TARGETS = (("gop_pts", 0), ("gop_dts", 0), ("gop_dts", 1), ("gop_dts", 3))
"""Seek targets in order of preference: (time column of the index, keyframes before the GOP's). Some
containers land after the requested time."""


class WrongPacketError(DecodeError):
    """After a seek the container returns other packets than in a linear read."""


class Demuxer:
    """An open file with a read position. Not thread-safe."""

    def __init__(self, index: StreamIndex, counters: DecodeCounters) -> None:
        """Open nothing yet. Packets and bytes read are added to `counters`."""
        self._index = index
        self._counters = counters
        self._container: InputContainer | None = None
        self._stream: VideoStream | None = None
        self._packets: Iterator[VideoPacket | None] = iter(())
        self._is_sought = False
        self._can_seek = index.is_seekable
        self._last_target = 0
        """Index in `_SEEK_TARGETS` of the target that found the last packet."""
        self.first: VideoPacket | None = None
        """The first packet of the stream, with its one-time headers."""
        self.next_packet: int | None = None
        """Index of the next packet; None without a position or past the end."""

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._container is not None

    @property
    def stream(self) -> VideoStream:
        """The stream; opens the file if it is closed."""
        if self._stream is None:
            self._open()
        assert self._stream is not None
        return self._stream

    def go_to(self, gop: int) -> None:
        """Go to the packet that a GOP is decoded from."""
        packet_index = int(self._index.gop_packet[gop])
        if self.next_packet != packet_index and not self._seek(gop):
            if self.next_packet is None or self.next_packet > packet_index:
                self.close()
                self._open()
            for _ in range(self.next_packet or 0, packet_index):
                next(self._packets, None)
                self._counters.packets_read += 1
        self.next_packet = packet_index

    def read(self) -> VideoPacket | None:
        """Return the next packet; None at the end, where the demuxer has no position.

        Raises:
            WrongPacketError: the packet differs from the indexed one; from now on packets are read
                linearly.
            ScanError: reading fails.
        """
        assert self.next_packet is not None
        packet = next(self._packets, None)
        if packet is None:
            self.next_packet = None
            return None
        self._counters.packets_read += 1
        self._counters.bytes_read += packet.size
        packet_index = self.next_packet
        # Comparing the length is enough: the first packet after the seek was compared by its bytes.
        if self._is_sought and (
            packet_index >= self._index.packets
            or packet.size != length_of(int(self._index.signature[packet_index]))
        ):
            self._can_seek = False
            self.close()
            raise WrongPacketError(
                f"packet {packet_index} of {self._index.source} differs after a seek",
                source=str(self._index.source),
            )
        self.next_packet = packet_index + 1
        return packet

    def invalidate(self) -> None:
        """Drop the position."""
        self.next_packet = None

    def close(self) -> None:
        """Release the file."""
        self.next_packet = None
        self._packets = iter(())
        self._stream = self.first = None
        if self._container is not None:
            self._container.close()
            self._container = None

    def _open(self) -> None:
        self._container, self._stream = open_container(self._index.source)
        self._counters.opens += 1
        self._packets = packets_of(self._container, self._stream, self._index.source)
        self._is_sought = False
        self.first = next(self._packets)
        self._packets = chain([self.first], self._packets)
        self.next_packet = 0

    def _seek(self, gop: int) -> bool:
        """Seek to the packet that a GOP is decoded from; return False if it is not found.

        The container's seek table is not trusted: the packet found is compared with the index.
        """
        if self._container is None:
            self._open()
            if self._index.gop_packet[gop] == 0:
                return True
        if not self._can_seek or self._container is None:
            return False
        for target in sorted(range(len(_SEEK_TARGETS)), key=lambda k: k != self._last_target):
            column, gops_back = _SEEK_TARGETS[target]
            time = int(getattr(self._index, column)[max(0, gop - gops_back)])
            self.next_packet = None
            self._counters.seeks += 1
            try:
                self._container.seek(time, stream=self._stream, backward=True)
            except av.error.FFmpegError:
                continue
            self._packets = packets_of(self._container, self.stream, self._index.source)
            self._is_sought = True
            if self._find_gop(gop):
                self._last_target = target
                return True
        return False

    def _find_gop(self, gop: int) -> bool:
        """Read until the GOP's packet is next; return False if it was passed or is ambiguous."""
        index = self._index
        signature = int(index.signature[index.gop_packet[gop]])
        position, dts = int(index.gop_position[gop]), int(index.gop_dts[gop])
        is_unique = index.is_unique[index.gop_packet[gop]]
        for packet in self._packets:
            if packet is None:
                return False
            is_at_position = position >= 0 and packet.pos == position
            is_at_position |= index.info.container == "image2" and packet.pts == index.gop_pts[gop]
            if signature_of(memoryview(packet)) == signature and (is_unique or is_at_position):
                self._packets = chain([packet], self._packets)
                return True
            if position >= 0 and packet.pos is not None and packet.pos > position:
                return False
            if position < 0 and packet.dts is not None and packet.dts > dts:
                return False
            self._counters.packets_read += 1
        return False
