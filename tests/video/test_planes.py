"""Checksums of pictures: equal for equal ones, whatever lies beside the rows."""

import numpy as np
import pytest
from av import VideoFrame

from headrace.video.planes import digest_of, rows_of

FORMATS = ["yuv420p", "yuv420p10le", "yuv444p", "gray", "rgb24", "nv12", "yuyv422", "gbrp", "pal8"]


def picture(width: int, pixel_format: str, value: int = 7) -> VideoFrame:
    """A picture of one value; what lies behind its rows is another each time."""
    frame = VideoFrame(width, 16, pixel_format)
    for plane in frame.planes:
        noise = np.random.default_rng(value).integers(0, 256, plane.buffer_size, np.uint8)
        plane.update(noise.tobytes())
    return frame


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_change_anywhere_changes_the_digest(pixel_format):
    assert digest_of(picture(32, pixel_format)) == digest_of(picture(32, pixel_format))
    assert digest_of(picture(32, pixel_format)) != digest_of(picture(32, pixel_format, 8))


def test_size_and_format_belong_to_it():
    blank = [VideoFrame(*size, "gray") for size in ((32, 16), (16, 32))]
    for frame in blank:
        frame.planes[0].update(bytes(frame.planes[0].buffer_size))
    assert digest_of(blank[0]) != digest_of(blank[1])


def test_what_lies_behind_a_row_does_not_count():
    frames = []
    for padding in (0, 255):
        frame = VideoFrame(30, 16, "gray")
        rows = np.full((16, frame.planes[0].line_size), padding, np.uint8)
        rows[:, :30] = 9
        frame.planes[0].update(rows.tobytes())
        frames.append(frame)
    assert frames[0].planes[0].line_size > 30
    assert digest_of(frames[0]) == digest_of(frames[1])
    assert rows_of(frames[0].planes[0], 30).shape == (16, 30)
