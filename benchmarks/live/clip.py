"""Real video, 720p at 30 frames a second, with the frame number in a corner of each frame.

It is made of the shots of `benchmarks.media`. A shown frame thus gives its number and, with the
sender's clock, its age.
"""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.equality import Pictures, shrink
from benchmarks.media import FRAME_RATE, HEIGHT, WIDTH, encode, pictures, shots
from headrace.testing.synth_pixels import read_number
from headrace.video.frame_barcode import DARK, LIGHT, blocks_of, grid_of

CORNER = (160, 192)
"""Height and width of the upper left corner; the number is in its upper five eighths."""
_ENCODER = {"preset": "veryfast", "crf": "26", "g": "30", "bf": "0"}
"""Like a camera: a keyframe per second, no B-frames."""
_ROWS = 704
"""Rows of a frame in a thumbnail: a multiple of its side."""


def numbered_clip(root: Path, seconds: int) -> Path:
    """Return the clip of `seconds`; creates a missing one in about half its duration."""
    path = root / "live" / f"numbered-{seconds}s.mp4"
    if not path.is_file():
        frames = islice(_frames(), seconds * FRAME_RATE)
        encode(path, frames, (HEIGHT, WIDTH), FRAME_RATE, _ENCODER)
    return path


def number_of(picture: NDArray[np.uint8]) -> int:
    """Return the frame number, from 0, in an image: uint8 [H, W, 3], RGB or BGR.

    Raises:
        ValueError: the number is not readable.
    """
    height, width = CORNER
    return read_number(picture[:height, :width])


def grey_thumbnails(pictures: NDArray[np.uint8]) -> Pictures:
    """Return thumbnails of uint8 [N, 720, 1280, 3] as [N, 32, 32, 1], without the last 16 rows.

    Grey is the mean of the channels, equal for RGB and BGR.
    """
    thumbnails = shrink(pictures[:, :_ROWS]).astype(np.float32)
    grey: Pictures = thumbnails.mean(axis=-1, keepdims=True).astype(np.float16)
    return grey


def _frames() -> Iterator[av.VideoFrame]:
    """Yield frames with their number."""
    shown = (frame for video in count() for shot in shots(video) for frame in pictures(shot))
    for number, frame in enumerate(shown):
        for plane in frame.planes:
            rows = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size).copy()
            if plane.width < frame.width:  # chroma
                rows[: CORNER[0] // 2, : CORNER[1] // 2] = 128
            else:
                for is_light, place in zip(blocks_of(number), grid_of(CORNER), strict=True):
                    rows[place] = LIGHT if is_light else DARK
            plane.update(rows.tobytes())
        yield frame
