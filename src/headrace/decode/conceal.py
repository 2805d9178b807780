"""What FFmpeg shows where frames are damaged: its guess, or the picture before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from av.video.frame import VideoFrame

from headrace.decode.protocol import DecodeCounters
from headrace.decode.witness import certain_span, plain_frames_from
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
