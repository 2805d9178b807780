"""The bytes of a picture's planes, without the padding behind each row."""

import zlib

import numpy as np
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane
from numpy.typing import NDArray


def rows_of(plane: VideoPlane, row_bytes: int) -> NDArray[np.uint8]:
    """Return a view of a plane, uint8 [rows, row_bytes], valid as long as its frame."""
    rows = np.frombuffer(memoryview(plane), np.uint8, plane.line_size * plane.height)
    return rows.reshape(plane.height, plane.line_size)[:, :row_bytes]


def digest_of(frame: VideoFrame) -> int:
    """Return a checksum of a decoded picture, in [0, 2^32): equal pictures have equal ones.

    Cost: some 1 ms for 720p.
    """
    checksum = zlib.crc32(f"{frame.format.name} {frame.width}x{frame.height}".encode())
    planes = frame.planes
    if frame.format.has_palette:
        palette = np.frombuffer(memoryview(planes[1]), np.uint32)
        # What no pixel names may lie there from another picture.
        return zlib.crc32(palette[rows_of(planes[0], frame.width)].data, checksum)
    for plane in planes:
        if len(planes) == 1:
            row_bytes = (plane.width * frame.format.padded_bits_per_pixel + 7) // 8
        else:
            samples = 1 if len(planes) > 2 or plane is planes[0] else 2  # colour lies interleaved
            row_bytes = plane.width * samples * ((frame.format.components[0].bits + 7) // 8)
        row_bytes = min(row_bytes, plane.line_size)
        if plane.line_size * plane.height <= plane.buffer_size:
            rows = np.ascontiguousarray(rows_of(plane, row_bytes))
            checksum = zlib.crc32(rows.data, checksum)
    return checksum
