"""Content digests: hashes of a file's content as text, and checksums of frames."""

import hashlib
import zlib
from pathlib import Path
from typing import Final

import numpy as np
from av.video.frame import VideoFrame
from av.video.plane import VideoPlane
from numpy.typing import NDArray

WHOLE_BYTES: Final = 256 << 20
"""Size in bytes up to which a file is read completely: 0.2 s from memory, 2 s from a slow disk."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 1 << 20


def content_digest(path: Path, *, whole_bytes: int = WHOLE_BYTES) -> str | None:
    """Return `sha256:…` of all bytes of a file, or `sampled-sha256:…` of a larger one.

    `sha256sum` prints the same 64 digits.

    A larger file is hashed by its size and 64 pieces of 1 MiB, spread evenly from the first byte to
    the last: enough to distinguish videos, not to find one changed byte. Compute it after a run,
    not before, or the run reads the file from the page cache. For frequent use, a source's
    `content_id` reads only three pieces.

    Args:
        path: The file.
        whole_bytes: Size up to which the file is read completely.

    Returns:
        None if the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            size = file.seek(0, 2)
            if size <= whole_bytes:
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256")
                return f"sha256:{digest.hexdigest()}"
            digest.update(str(size).encode())
            for k in range(_SAMPLES):
                file.seek(k * max(0, size - _SAMPLE_BYTES) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    except OSError:
        return None
    return f"sampled-sha256:{digest.hexdigest()}"


def rows_of(plane: VideoPlane, row_bytes: int) -> NDArray[np.uint8]:
    """Return a view of a plane uint8 [rows, row_bytes], valid while its frame is."""
    rows = np.frombuffer(memoryview(plane), np.uint8, plane.line_size * plane.height)
    return rows.reshape(plane.height, plane.line_size)[:, :row_bytes]


def digest_of(frame: VideoFrame) -> int:
    """Return a checksum of a decoded frame, in [0, 2^32); equal frames have equal checksums.

    Cost: some 1 ms for 720p.
    """
    checksum = zlib.crc32(f"{frame.format.name} {frame.width}x{frame.height}".encode())
    planes = frame.planes
    if frame.format.has_palette:
        palette = np.frombuffer(memoryview(planes[1]), np.uint32)
        # Unused palette entries may hold an earlier frame's colors.
        return zlib.crc32(palette[rows_of(planes[0], frame.width)].data, checksum)
    for plane in planes:
        if len(planes) == 1:
            row_bytes = (plane.width * frame.format.padded_bits_per_pixel + 7) // 8
        else:
            samples = 1 if len(planes) > 2 or plane is planes[0] else 2  # interleaved chroma
            row_bytes = plane.width * samples * ((frame.format.components[0].bits + 7) // 8)
        row_bytes = min(row_bytes, plane.line_size)
        if plane.line_size * plane.height <= plane.buffer_size:
            rows = np.ascontiguousarray(rows_of(plane, row_bytes))
            checksum = zlib.crc32(rows.data, checksum)
    return checksum
