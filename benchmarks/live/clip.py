"""A real video of 720p at 30 frames a second, each of whose frames carries its number in a corner.

`python -m benchmarks.live.clip` makes it, once, out of the shots of `benchmarks.media`. So whoever
shows a frame can tell which one it is, and with the sender's clock how old.
"""

import argparse
from collections.abc import Iterator
from fractions import Fraction
from itertools import count, islice
from pathlib import Path

import av
import numpy as np
from av.video.frame import PictureType
from numpy.typing import NDArray

from benchmarks.media import DEFAULT_ROOT, FRAME_RATE, pictures, shots
from headrace.testing.synth_pixels import read_number
from headrace.video.number_code import DARK, LIGHT, blocks_of, grid_of

CORNER = (160, 192)
"""Height and width of the corner, upper left; the number lies in its upper five eighths."""
_ENCODER = {"preset": "veryfast", "crf": "26", "g": "30", "bf": "0", "threads": "1"}
"""As a camera encodes: a keyframe each second, no frame that leans on a later one."""


def numbered_clip(root: Path, seconds: int) -> Path:
    """Return the clip of so many seconds; made where it is missing, in about half its length."""
    path = root / "live" / f"numbered-{seconds}s.mp4"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        _encode(unfinished, seconds * FRAME_RATE)
        unfinished.replace(path)
    return path


def number_of(picture: NDArray[np.uint8]) -> int:
    """Return which frame a picture is, from 0: uint8 [H, W, 3], RGB or BGR.

    Raises:
        ValueError: it carries no readable number.
    """
    height, width = CORNER
    return read_number(picture[:height, :width])


def _encode(path: Path, num_frames: int) -> None:
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FRAME_RATE, options=_ENCODER)
        stream.height, stream.width, stream.pix_fmt = 720, 1280, "yuv420p"
        for number, frame in enumerate(islice(_frames(), num_frames)):
            luma = np.frombuffer(frame.planes[0], np.uint8)
            picture = luma.reshape(-1, frame.planes[0].line_size)
            painted = picture.copy()
            for is_light, place in zip(blocks_of(number), grid_of(CORNER), strict=True):
                painted[place] = LIGHT if is_light else DARK
            frame.planes[0].update(painted)
            for plane in frame.planes[1:]:
                _make_grey(plane)
            frame.pts, frame.time_base = number, Fraction(1, FRAME_RATE)
            frame.pict_type = PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _make_grey(plane: av.video.plane.VideoPlane) -> None:
    chroma = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size).copy()
    chroma[: CORNER[0] // 2, : CORNER[1] // 2] = 128
    plane.update(chroma)


def _frames() -> Iterator[av.VideoFrame]:
    for video in count():
        for shot in shots(video):
            yield from pictures(shot)


def main() -> None:
    """Make it and say where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--media", type=Path, default=DEFAULT_ROOT, help="folder of the media")
    parser.add_argument("--seconds", type=int, default=80)
    options = parser.parse_args()
    print(numbered_clip(options.media, options.seconds))


if __name__ == "__main__":
    main()
