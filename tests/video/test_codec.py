"""A frame whose own header is larger than that of its file takes no memory."""

import struct
import zlib

import av
import pytest

from headrace.video.codec import prepare
from headrace.video.container import MAX_PIXELS


def png(side):
    """A black PNG of one bit for each pixel: few bytes, and any size."""
    rows = zlib.compress(bytes((1 + -(-side // 8)) * side), 1)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = [
        (b"IHDR", header),
        (b"IDAT", rows),
        (b"IEND", b""),
    ]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return av.Packet(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def test_a_frame_above_the_bound_is_refused():
    side = 11_586
    assert (side - 2) ** 2 < MAX_PIXELS < side**2
    [frame] = prepare(av.CodecContext.create("png", "r")).decode(png(side - 2))
    assert frame.width == side - 2
    with pytest.raises(av.error.FFmpegError):
        prepare(av.CodecContext.create("png", "r")).decode(png(side))
