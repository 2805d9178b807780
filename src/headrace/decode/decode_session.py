"""Decode session: an open stream and its codecs, which decode ranges of frames."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from headrace.decode.demuxer import Demuxer, WrongPacketError
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.video.codec import (
    REOPENABLE_CODECS,
    Codec,
    DecodedFrame,
    PacketResult,
    VideoPacket,
    new_codec,
    prepare,
)
from headrace.video.random_access import RandomAccess
from headrace.video.reference_codec import (
    CODECS_WITH_RESIDUE,
    RestartParameters,
    ffmpeg_codec,
    reference_codec,
)
from headrace.video.stream_index import StreamIndex


class StreamCodecs:
    """Opens codecs of one stream on the CPU. Not thread-safe: one per decoder.

    A subclass for a GPU opens other codecs, and checks and copies their frames.
    """

    def __init__(self, index: StreamIndex) -> None:
        """Open no codec yet."""
        self._index = index
        self._reorder_depth = 0

    @property
    def is_reopenable(self) -> bool:
        """Whether a codec can be opened anywhere in the stream, not only at its start."""
        return self._index.info.codec in REOPENABLE_CODECS and not self._index.needs_one_codec

    def acquire_codec(
        self, stream: VideoStream, first: VideoPacket | None, doubled: Iterable[int] = ()
    ) -> Codec:
        """Return a codec without decoding state.

        Args:
            stream: The stream.
            first: First packet of the stream, which every codec receives.
            doubled: Indices of later packets that output two frames.

        Raises:
            BackendError: the GPU is missing, or has no codec for the stream; or this process was
                forked from one that uses CUDA.
        """
        if not self.is_reopenable:
            return ffmpeg_codec(prepare(stream.codec_context), doubled)
        context = new_codec(stream, depth=self._reorder_depth)
        restart = RestartParameters(stream, first, self._index.parameter_sets_before_packet)
        return reference_codec(context, doubled, restart)

    def release_codec(self, codec: Codec, *, is_working: bool) -> None:
        """Take back a codec from `acquire_codec`; a codec that does not work is never reused."""
        # Without the known depth a new codec would drop frames until it detects it.
        self._reorder_depth = max(self._reorder_depth, codec.reorder_depth)

    def check(
        self, packet_index: int, packet: VideoPacket | None, decoded: Sequence[DecodedFrame]
    ) -> None:
        """Check frames that were output after `packet`; frames of the CPU are right.

        Raises:
            BackendError: a GPU's frame is wrong.
        """

    def check_lost(self, frame_index: int, decodes_on_cpu: Callable[[int], bool]) -> None:
        """Check that a frame without output is damaged.

        Raises:
            BackendError: it is not: the CPU decodes it.
        """

    def to_deliverable(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame for the converters: on the GPU, or in the CPU decoder's pixel format."""
        return frame

    def to_planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame on the CPU, in the CPU decoder's pixel format."""
        return frame


class DecodeSession:
    """Decodes ranges of one stream, without a seek between them where possible. Not thread-safe.

    Frames are equal to those of a reference decode as far as the entry's random access holds. At
    damage without a known status the range breaks off, and the caller verifies the GOP.
    """

    def __init__(self, index: StreamIndex, counters: DecodeCounters, codecs: StreamCodecs) -> None:
        self._index = index
        self._counters = counters
        self._codecs = codecs
        self._demuxer = Demuxer(index, counters)
        self._codec: Codec | None = None
        self._settles_late = index.has_late_frames
        self._ready: deque[tuple[int, VideoFrame]] = deque()
        """Output frames with their indices."""
        self._in_codec: dict[int, int] = {}
        """Packet index -> frame index of packets that were sent and whose frame may still come."""
        self._settled_before: float = math.inf
        """Frames of packets before this one are settled: the first of `_in_codec`."""
        self._skipped: set[int] = set()
        """Indices of disposable frames that were not requested and not decoded."""
        self._last_output = -1
        """Highest frame index that was output since the entry."""
        self._entry_gop = 0
        self._is_drained = False
        self._is_at_end = False
        self._is_entry_confirmed = False
        self._is_working = True
        """Whether the codec works: its last output was a frame, not a report of damage."""
        self.doubtful_frame: int | None = None
        """The frame whose damage broke off the last range; None where there was no such damage."""
        self.is_broken = False
        """Whether the last range broke off before its end."""

    def decode_range(
        self, gop: int, wanted: list[int], job: DecodeJob, *, skips: bool
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Decode from the keyframe of `gop`; yield (index, frame) of the wanted frames, in order.

        A frame is final once `is_settled` returns True, or the range has ended without `is_broken`.
        The range breaks off at reported damage without a known status, and where the entry is no
        keyframe; the session then has no position.

        Args:
            gop: The GOP to start at, unless reading on from the current position yields the same
                frames.
            wanted: The job's remaining frames, none before `gop`.
            job: The job, with the first frame of the next one.
            skips: Whether to skip disposable frames that are not wanted.
        """
        remaining, last, last_packet = set(wanted), wanted[-1], -1
        self.doubtful_frame, self.is_broken = None, False
        end = None if job.goes_on else self._end_of(wanted)
        until = last if job.following is None else job.following
        if not self._can_continue(gop, wanted):
            self._seek(gop)
        while True:
            while self._ready and self._ready[0][0] <= last:
                frame_index, frame = self._ready.popleft()
                self._last_output = max(self._last_output, frame_index)
                if frame_index in remaining:
                    remaining.discard(frame_index)
                    if self._settles_late:
                        last_packet = max(last_packet, self._index.packet_index.item(frame_index))
                    yield frame_index, self._codecs.to_deliverable(frame)
            is_past = not remaining or self._ready
            if self._is_drained or (is_past and last_packet < self._settled_before):
                return
            try:
                is_valid = self._advance(remaining, until, end, skips=skips)
            except WrongPacketError:
                is_valid = False  # The demuxer reads in order from now on.
            if not is_valid:
                self.invalidate()
                self.is_broken = True
                return

    def is_settled(self, frame_index: int) -> bool:
        """Return whether all frames decoded before a frame and shown after it were output.

        The frame may refer to them, and the codec reports their damage only on output.
        """
        if self._settled_before == math.inf:
            return True
        return self._index.packet_index.item(frame_index) < self._settled_before

    def invalidate(self) -> None:
        """Drop the position: the next range starts with a seek."""
        self._clear()
        self._demuxer.invalidate()
        self._is_at_end = False

    def mark_failed(self) -> None:
        """Release the codec after an error of the GPU, so that it is not reused."""
        self._is_working = False
        self.release_codec()

    def release_codec(self) -> None:
        """Release the codec; the file stays open where the codec can be reopened."""
        self.invalidate()
        self._drop_codec()
        if not self._codecs.is_reopenable:
            self._demuxer.close()

    def close(self) -> None:
        """Release the file and the codec."""
        self.invalidate()
        self._drop_codec()
        self._demuxer.close()

    def _can_continue(self, gop: int, wanted: list[int]) -> bool:
        """Return whether reading on delivers `wanted` as well as a seek to `gop` would.

        True if the session started at or before that keyframe, no wanted frame was passed or
        skipped, and no whole GOP lies in between. Packets read up to the end count as decoded.
        """
        if wanted[0] <= self._last_output or self._entry_gop > gop:
            return False
        ahead = self._demuxer.next_packet
        is_read = self._is_at_end if ahead is None else int(self._index.gop_packet[gop]) <= ahead
        return is_read and self._skipped.isdisjoint(wanted)

    def _seek(self, gop: int) -> None:
        """Go to the keyframe of `gop`, with a codec without state of earlier packets."""
        self._clear()
        self._skipped.clear()
        self._last_output, self._entry_gop = -1, gop
        self._is_drained = self._is_at_end = False
        # Frames with a known status are compared with their digest.
        is_known = self._index.frame_status.knows(int(self._index.gop_start[gop]))
        self._is_entry_confirmed = (
            is_known or self._index.gop_random_access.item(gop) != RandomAccess.INTRA
        )
        if gop == 0 and not self._codecs.is_reopenable and self._codec is not None:
            self._demuxer.close()  # Some codecs keep a frame after a flush.
        was_open = self._demuxer.is_open
        self._demuxer.go_to(gop)
        if self._codec is None or self._codecs.is_reopenable or not was_open:
            self._drop_codec()
            doubled = self._index.doubled.tolist() if gop == 0 else ()
            stream = self._demuxer.stream
            self._codec = self._codecs.acquire_codec(stream, self._demuxer.first, doubled)
            if not is_known:
                self._codec.enable_error_detection()
            if self._index.gop_packet[gop] > 0:
                self._codec.send_parameter_sets(
                    self._demuxer.first, self._index.parameter_sets_before(gop)
                )
        else:
            self._codec.flush()

    def _clear(self) -> None:
        self._ready.clear()
        self._in_codec.clear()
        self._settled_before = math.inf

    def _drop_codec(self) -> None:
        if self._codec is not None:
            self._codecs.release_codec(self._codec, is_working=self._is_working)
        self._codec = None
        self._is_working = True

    def _end_of(self, wanted: list[int]) -> int | None:
        """Return the packet index after the last needed packet; None if frames may span packets.

        A frame of two packets, such as two fields, would lack its second half.
        """
        if self._index.packets != len(self._index):
            return None
        return int(self._index.packet_index[wanted].max()) + 1

    def _advance(self, remaining: set[int], until: int, end: int | None, *, skips: bool) -> bool:
        """Send one packet, or drain the codec; return whether the output is valid."""
        demuxer = self._demuxer
        packet_index = demuxer.next_packet
        packet = None if packet_index is None or packet_index == end else demuxer.read()
        if packet is None or packet_index is None:
            demuxer.invalidate()
            self._is_drained = True
            self._is_at_end = packet_index != end or packet_index == self._index.packets
            return self._decode(
                None, self._index.packets - 1 if packet_index is None else packet_index - 1
            )
        frame_index = self._index.frame_index_of(packet_index)
        can_skip = skips and frame_index < until and frame_index not in remaining
        if (can_skip and self._is_disposable(frame_index)) or self._is_damaged_reference(
            frame_index
        ):
            self._skipped.add(frame_index)
            return True
        return self._decode(packet, packet_index)

    def _decode(self, packet: VideoPacket | None, packet_index: int) -> bool:
        assert self._codec is not None
        decoded = self._codec.decode(packet_index, packet)
        self._counters.frames_decoded += len(decoded.shown)
        if decoded.shown or decoded.reported:
            self._is_working = bool(decoded.shown)
        self._codecs.check(packet_index, packet, decoded.shown)
        for shown in decoded.shown:
            self._ready.append((self._index.frame_index_of(shown.packet_index), shown.frame))
        if self._settles_late:
            self._settle(packet, packet_index, decoded)
        for shown in decoded.shown:
            if not self._is_entry_confirmed and not self._confirm_entry(shown):
                return False
        for bad in decoded.reported:
            self.doubtful_frame = self._unknown_damage(bad)
            if self.doubtful_frame is not None:
                return False
        return True

    def _settle(self, packet: VideoPacket | None, packet_index: int, decoded: PacketResult) -> None:
        """Update `_settled_before` after the output of a packet."""
        in_codec = self._in_codec
        if packet is None:
            in_codec.clear()
        else:
            in_codec[packet_index] = self._index.frame_index_of(packet_index)
        for reported in decoded.reported:
            in_codec.pop(reported, None)
        for shown in decoded.shown:
            in_codec.pop(shown.packet_index, None)
        # Output is in presentation order: a frame before the newest one will not come any more.
        newest = self._ready[-1][0] if self._ready else self._last_output
        for passed in [other for other, frame_index in in_codec.items() if frame_index <= newest]:
            del in_codec[passed]
        self._settled_before = min(in_codec, default=math.inf)

    def _confirm_entry(self, shown: DecodedFrame) -> bool:
        """Return whether the first output frame shows that the entry is a keyframe."""
        self._is_entry_confirmed = (
            shown.packet_index == int(self._index.gop_packet[self._entry_gop])
            and shown.frame.key_frame
            and shown.frame.pict_type == PictureType.I
        )
        return self._is_entry_confirmed

    def _unknown_damage(self, bad: int) -> int | None:
        """Return the frame of reported damage; None if its status is known.

        Frames shown before the keyframe of the entry refer to the GOP before: they cannot decode
        cleanly here, and no later frame refers to them.
        """
        index = self._index
        frame_index = index.frame_index_of(bad)
        if frame_index < 0:
            frame_index = int(index.gop_start[index.gop_of_packet(bad)])
        elif frame_index < index.gop_start[self._entry_gop]:
            return None
        return None if index.frame_status.knows(frame_index) else frame_index

    def _is_disposable(self, frame_index: int) -> bool:
        """Return whether no other frame refers to this one; False for a packet without a frame."""
        return frame_index >= 0 and bool(self._index.is_disposable[frame_index])

    def _is_damaged_reference(self, frame_index: int) -> bool:
        """Return whether a frame is known to be damaged and must not reach the codec.

        Its residue would damage later frames.
        """
        return (
            frame_index >= 0
            and self._index.frame_status.is_damaged(frame_index)
            and self._index.info.codec in CODECS_WITH_RESIDUE
            and self._is_disposable(frame_index)
        )
