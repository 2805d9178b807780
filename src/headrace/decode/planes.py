"""The bytes of a picture's planes, without the padding behind each row."""

import numpy as np
from av.video.plane import VideoPlane
from numpy.typing import NDArray


def rows_of(plane: VideoPlane, row_bytes: int) -> NDArray[np.uint8]:
    """Return a view of a plane, uint8 [rows, row_bytes], valid as long as its frame."""
    rows = np.frombuffer(memoryview(plane), np.uint8, plane.line_size * plane.height)
    return rows.reshape(plane.height, plane.line_size)[:, :row_bytes]
