"""The same random places read by other libraries: which frame of the plain decode is each?

Other scalers and matrices give other pixels, so pictures are compared as thumbnails: the right
frame must be nearer than the others around it, as in `benchmarks.equality`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from benchmarks.conformance.compare_frames import Tally
from benchmarks.conformance.reference import Reference, thumbnail
from benchmarks.equality import MARGIN
from headrace.video.shape import Orientation

WINDOW = 12
"""Frames before and behind the right one that it is told from."""
Read = Callable[[int], NDArray[np.uint8] | None]
"""Index of a frame → uint8 [H, W, 3], RGB; None where the library gives nothing."""


def judge_library(
    library: str,
    path: Path,
    reference: Reference,
    *,
    places: int,
    seed: int,
    seconds: float,
    libraries: Mapping[str, Callable[[Path], Read]] | None = None,
) -> Tally:
    """Return what one library makes of random frames; it stops after so many seconds.

    It may count frames that FFmpeg lost with a complaint, or not: either is right.
    """
    ends = perf_counter() + seconds
    count = len(reference)
    asked = Random(seed).sample(range(count), min(places, count))
    tally = Tally()
    read: Read | None = None
    for place in asked:
        try:
            read = read or (libraries or LIBRARIES)[library](path)
            picture = read(place)
        except Exception as error:  # noqa: BLE001
            tally.say(f"{type(error).__name__}: {error}")
            picture = None
        if picture is None:
            tally.say("it gives no picture")
            is_told = bool(reference.is_complained_of[place])
            tally.is_refused(f"{place} is refused", is_complained_of=is_told)
        elif (other := another(reference, place, picture)) is None:
            tally.is_right()
        else:
            tally.is_wrong(f"{place} is most like frame {other}")
        if perf_counter() > ends:
            break
    return tally


def another(reference: Reference, place: int, picture: NDArray[np.uint8]) -> int | None:
    """Return the frame that a picture is, where it is not frame `place`; None where it is."""
    first = max(0, place - WINDOW)
    near = reference.thumbnails[first : place + WINDOW + 1].astype(np.float32)
    distances = np.min(
        [
            np.abs(near - form.astype(np.float32)).mean(axis=(1, 2, 3))
            for form in _forms(thumbnail(picture), reference.orientation)
        ],
        axis=0,
    )
    numbers = np.arange(first, first + len(near))
    may_be = (numbers == place) | (reference.places[numbers] == place)
    others = np.where(may_be, np.inf, distances)
    if others.min(initial=np.inf) + MARGIN < distances[may_be].min():
        return int(numbers[others.argmin()])
    return None


def _forms(small: NDArray[np.float16], orientation: Orientation) -> list[NDArray[np.float16]]:
    """Return a thumbnail as it is, and all turns of it where the file asks for one.

    Not every library turns pictures, or turns them well; which frame it is shows all the same.
    """
    if orientation == Orientation():
        return [small]
    return [np.rot90(side, turns) for side in (small, small[:, ::-1]) for turns in range(4)]


def _torchcodec(path: Path) -> Read:
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact")
    return lambda index: decoder.get_frame_at(index).data.numpy()


def _decord(path: Path) -> Read:
    import decord

    reader = decord.VideoReader(str(path), num_threads=1)
    return lambda index: reader[index].asnumpy()


def _opencv(path: Path) -> Read:
    import cv2

    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])

    def read(index: int) -> NDArray[np.uint8] | None:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        has_come, picture = capture.read()
        return np.asarray(picture, np.uint8)[:, :, ::-1] if has_come else None

    return read


LIBRARIES: Mapping[str, Callable[[Path], Read]] = {
    "torchcodec": _torchcodec,
    "decord": _decord,
    "opencv": _opencv,
}
"""Name of a library → what opens a file with it."""
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "headrace": ("headrace", "av", "torch"),
    "torchcodec": ("torchcodec", "torch"),
    "decord": ("decord",),
    "opencv": ("opencv-python-headless",),
}
"""Party → distributions whose versions decide the result."""
