"""One way through a stream: from an entry on, packet by packet, with what may be believed there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from av.video.frame import PictureType, VideoFrame

from headrace.decode.demuxer import Demuxer
from headrace.decode.gop_verification import certain_span, plain_frames_from
from headrace.decode.gpu_frames import GpuFrames
from headrace.decode.protocol import DecodeCounters
from headrace.video.codec import (
    CODECS_MADE_ANEW,
    Codec,
    DecodedFrame,
    FfmpegCodec,
    VideoPacket,
    new_codec,
    prepare,
)
from headrace.video.h264_error_reset import RestartParameters, plain_codec, spoiling
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex


def concealed(
    index: StreamIndex, wanted: Sequence[int], counters: DecodeCounters
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (index, frame) for `wanted`, ascending: what a player shows at that moment.

    Where FFmpeg gives a frame in spite of damage, it is that; where it gives none, the picture that
    is shown before, or the first that comes. Nothing is yielded where none comes at all.
    Decoding begins at the certain entry before that of the first, whose pictures FFmpeg patches
    with, and ends behind the last.
    Cost: opens the file, and decodes those GOPs; added to `counters`.
    """
    begin, _ = certain_span(index, index.gop_of(wanted[0]))
    if begin > 0:
        begin, _ = certain_span(index, begin - 1)
    left = deque(wanted)
    before: VideoFrame | None = None
    for number, frame in plain_frames_from(index, begin, counters):
        while left and left[0] < number:
            yield left.popleft(), frame if before is None else before
        if left and left[0] == number:
            yield left.popleft(), frame
        if not left:
            return
        before = frame
    while left and before is not None:
        yield left.popleft(), before


class DecodeSession:
    """Decodes stretches of one stream, going on from one to the next where it can. Not thread-safe.

    It gives only frames that a plain decode gives too, as far as the entry is to be believed; where
    it meets damage that nothing is known of, it breaks, and its caller finds out.
    """

    def __init__(self, index: StreamIndex, counters: DecodeCounters, gpu: GpuFrames | None) -> None:
        self._index = index
        self._counters = counters
        self._gpu = gpu
        self._feed = Demuxer(index, counters)
        self._codec: Codec | None = None
        self._reorder_depth = 0
        self._settles_late = index.has_late_frames
        self._ready: deque[DecodedFrame] = deque()
        self._inside: set[int] = set()
        """Ordinals of packets that were sent and whose frame is still to come."""
        self._withheld: set[int] = set()
        """Indices of frames that were not decoded, as nobody wanted them."""
        self._emitted = -1
        """Highest index that came out since the entry."""
        self._entry = 0
        self._is_drained = False
        self._is_at_end = False
        self._is_believed = False
        self._is_sound = True
        """Whether the codec works, by what came of it last: a frame, or a report of damage."""
        self.doubted: int | None = None
        """The frame whose damage broke the last stretch; None where none did."""
        self.is_broken = False
        """Whether the last stretch ended before its end."""

    def stretch(
        self,
        gop: int,
        wanted: list[int],
        *,
        skips: bool,
        goes_on: bool,
        following: int | None = None,
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Decode from the keyframe of `gop`; yield (index, frame) of the wanted ones, in order.

        A frame is to be believed once `is_settled` says so, or the stretch has ended without
        `is_broken`. It breaks where damage is reported of which nothing is known, or the entry
        proves to be none; the passage then stands nowhere.

        Args:
            gop: Where to enter, unless reading on brings the same.
            wanted: Indices, ascending, none twice, none before `gop`.
            skips: Whether to leave out frames that nobody wants and nothing refers to.
            goes_on: Whether a stretch may follow that reads on.
            following: The first frame that it wants, if that is known.
        """
        left, last = set(wanted), wanted[-1]
        unsettled: list[int] = []
        self.doubted, self.is_broken = None, False
        end = None if goes_on else self._end_of(wanted)
        until = last if following is None else following
        if not self._reaches(gop, wanted):
            self._enter(gop)
        while True:
            while self._ready and self._index.number_of(self._ready[0].ordinal) <= last:
                ordinal, frame = self._ready.popleft()
                number = self._index.number_of(ordinal)
                self._emitted = max(self._emitted, number)
                if number in left:
                    left.discard(number)
                    if self._settles_late:
                        unsettled.append(number)
                    yield number, frame
            if unsettled:
                unsettled = [number for number in unsettled if not self.is_settled(number)]
            is_past = not left or bool(self._ready)
            if self._is_drained or (is_past and not unsettled):
                return
            if not self._advance(left, until, end, skips=skips):
                self.lose()
                self.is_broken = True
                return

    def is_settled(self, number: int) -> bool:
        """Return whether all that was decoded before a frame, and is shown after it, came out.

        Such frames it may lean on, and damage to them is reported only when they come out.
        """
        if not self._settles_late or self._is_drained or not self._inside:
            return True
        number_of = self._index.number_of
        # Frames come out in the order in which they are shown: what should have is not coming.
        newest = number_of(self._ready[-1].ordinal) if self._ready else self._emitted
        self._inside = {ordinal for ordinal in self._inside if number_of(ordinal) > newest}
        ordinal = int(self._index.ordinal[number])
        return all(other > ordinal for other in self._inside)

    def lose(self) -> None:
        """Stand nowhere: the next stretch begins with a seek."""
        self._ready.clear()
        self._inside.clear()
        self._feed.lose()
        self._is_at_end = False

    def fail(self) -> None:
        """Rest behind an error of the GPU: its codec is not used again."""
        self._is_sound = False
        self.rest()

    def rest(self) -> None:
        """Release the codec; the file stays open where a codec can be made anew."""
        self.lose()
        self._drop_codec()
        if not self._is_made_anew:
            self._feed.close()

    def close(self) -> None:
        """Release the file and the codec."""
        self.lose()
        self._drop_codec()
        self._feed.close()

    @property
    def _is_made_anew(self) -> bool:
        return self._index.info.codec in CODECS_MADE_ANEW and not self._index.is_told_once

    def _reaches(self, gop: int, wanted: list[int]) -> bool:
        """Return whether reading on delivers `wanted` as well as a seek to `gop` would.

        It does when the passage began at or before that keyframe, nothing wanted has passed or was
        withheld, and no whole GOP lies in between. What was read to its end has been decoded.
        """
        if wanted[0] <= self._emitted or self._entry > gop:
            return False
        ahead = self._feed.next_ordinal
        is_read = self._is_at_end if ahead is None else int(self._index.gop_ordinal[gop]) <= ahead
        return is_read and self._withheld.isdisjoint(wanted)

    def _enter(self, gop: int) -> None:
        """Stand before the keyframe of `gop`, with a codec that knows nothing of what was."""
        self._ready.clear()
        self._inside.clear()
        self._withheld.clear()
        self._emitted, self._entry = -1, gop
        self._is_drained = self._is_at_end = False
        # Where the pictures are known, each is held against its own.
        is_known = self._index.verdicts.knows(int(self._index.gop_start[gop]))
        self._is_believed = is_known or self._index.gop_trust[gop] != RandomAccess.TYPED
        if gop == 0 and not self._is_made_anew and self._codec is not None:
            self._feed.close()  # Flushed, some codecs still know a picture; the start knows none.
        was_open = self._feed.is_open
        self._feed.go_to(gop)
        if self._codec is None or self._is_made_anew or not was_open:
            self._drop_codec()
            self._codec = self._new_codec(self._index.doubled.tolist() if gop == 0 else ())
            if not is_known:
                self._codec.be_wary()
            if self._index.gop_ordinal[gop] > 0:
                self._codec.prime(self._feed.first, self._index.told_before(gop))
        else:
            self._codec.flush()

    def _new_codec(self, doubled: Iterable[int]) -> Codec:
        stream = self._feed.stream
        if self._gpu is not None:
            return self._gpu.codec(stream, self._feed.first)
        if not self._is_made_anew:
            return FfmpegCodec(prepare(stream.codec_context), doubled)
        context = new_codec(stream)
        if self._reorder_depth > context.reorder_depth:
            context.reorder_depth = self._reorder_depth
        told = RestartParameters(stream, self._feed.first, self._index.told_before_packet)
        return plain_codec(context, doubled, told)

    def _drop_codec(self) -> None:
        if self._codec is not None and self._gpu is not None:
            self._gpu.let_rest(self._codec, is_sound=self._is_sound)
        elif self._codec is not None:
            # What it learnt on the way: a new one would lose frames until it has learnt it too.
            self._reorder_depth = max(self._reorder_depth, self._codec.reorder_depth)
        self._codec = None
        self._is_sound = True

    def _end_of(self, wanted: list[int]) -> int | None:
        """Return the ordinal of the packet that nothing wanted needs; None where none is certain.

        A frame of two packets, as of two fields, would lack its second half.
        """
        if self._index.packets != len(self._index):
            return None
        return int(self._index.ordinal[wanted].max()) + 1

    def _advance(self, left: set[int], until: int, end: int | None, *, skips: bool) -> bool:
        """Send one packet, or drain the codec; return whether what comes may be believed."""
        feed = self._feed
        ordinal = feed.next_ordinal
        packet = None if ordinal is None or ordinal == end else feed.read()
        if packet is None or ordinal is None:
            feed.lose()
            self._is_drained = True
            self._is_at_end = ordinal != end or ordinal == self._index.packets
            return self._decode(None, self._index.packets - 1 if ordinal is None else ordinal - 1)
        if (skips and self._may_withhold(ordinal, left, until)) or self._spoils(ordinal):
            self._withheld.add(self._index.number_of(ordinal))
            return True
        return self._decode(packet, ordinal)

    def _decode(self, packet: VideoPacket | None, ordinal: int) -> bool:
        assert self._codec is not None
        decoded = self._codec.decode(ordinal, packet)
        self._counters.frames_decoded += len(decoded.shown)
        if decoded.shown or decoded.reported:
            self._is_sound = bool(decoded.shown)
        if self._gpu is not None:
            self._gpu.check(ordinal, packet, decoded.shown)
        if self._settles_late:
            self._inside.add(ordinal)
            self._inside.difference_update(decoded.reported)
            self._inside.difference_update([shown.ordinal for shown in decoded.shown])
        for shown in decoded.shown:
            self._ready.append(shown)
            if not self._is_believed and not self._is_keyframe(shown):
                return False
        for bad in decoded.reported:
            self.doubted = self._doubt(bad)
            if self.doubted is not None:
                return False
        return True

    def _is_keyframe(self, shown: DecodedFrame) -> bool:
        """Return whether the first frame that came out shows the entry to be one."""
        self._is_believed = (
            shown.ordinal == int(self._index.gop_ordinal[self._entry])
            and shown.frame.key_frame
            and shown.frame.pict_type == PictureType.I
        )
        return self._is_believed

    def _doubt(self, bad: int) -> int | None:
        """Return the frame of reported damage, if nothing is known of it yet.

        Frames shown before the keyframe of the entry lean on the GOP before: they cannot decode
        cleanly here, and no later frame leans on them.
        """
        index = self._index
        number = index.number_of(bad)
        if number < 0:
            number = int(index.gop_start[index.gop_of_ordinal(bad)])
        elif number < index.gop_start[self._entry]:
            return None
        return None if index.verdicts.knows(number) else number

    def _spoils(self, ordinal: int) -> bool:
        """Return whether a packet is known to be damaged, and is left out for those behind it."""
        if self._index.verdicts.table is None:
            return False
        number = self._index.number_of(ordinal)
        if number < 0 or not self._index.verdicts.is_damaged(number):
            return False
        is_droppable = self._index.is_droppable[number]
        return bool(spoiling(self._index.info.codec, [ordinal], lambda _: bool(is_droppable)))

    def _may_withhold(self, ordinal: int, left: set[int], until: int) -> bool:
        """Return whether a packet need not be decoded to deliver `left`.

        From `until` on frames are decoded all the same: the stretch that follows goes on from here.
        """
        number = self._index.number_of(ordinal)
        if number < 0 or number >= until or number in left:
            return False
        return bool(self._index.is_droppable[number])
