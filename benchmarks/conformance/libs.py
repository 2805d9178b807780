"""The same random places read by other libraries: which frame of the plain decode is each?

Other scalers and matrices give other pixels, so pictures are compared as thumbnails: the right
frame must be nearer than the others around it, as in `benchmarks.equality`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from time import perf_counter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.adapters import Adapter, FrameAt
from benchmarks.conformance.compare_frames import Tally
from benchmarks.conformance.reference import Reference, thumbnail
from benchmarks.equality import MARGIN
from headrace.video.shape import Orientation

WINDOW = 12
"""Frames before and behind the right one that it is told from."""
LIBRARIES = ("torchcodec", "decord", "opencv")
"""Modules of `benchmarks.adapters`."""


def judge_library(
    library: str,
    path: Path,
    reference: Reference,
    *,
    places: int,
    seed: int,
    seconds: float,
    open_file: Callable[[Path], FrameAt] | None = None,
) -> Tally:
    """Return what one library makes of random frames, for so many seconds from the first one on.

    Its import and the opening of the file come before, however long they take.
    It may count frames that FFmpeg lost with a complaint, or not: either is right.
    """
    count = len(reference)
    asked = Random(seed).sample(range(count), min(places, count))
    tally = Tally()
    read: FrameAt | None = None
    ends: float | None = None
    for place in asked:
        try:
            open_file = open_file or adapter(library).frame_at
            read = read or open_file(path)
            picture = read(place)
        except Exception as error:  # noqa: BLE001
            tally.explain(f"{type(error).__name__}: {error}")
            picture = None
        if picture is None:
            tally.explain("it gives no picture")
            is_told = reference.is_complained_of[place]
            tally.add("refused_with" if is_told else "refused_without", f"{place} is refused")
        elif (other := another(reference, place, picture)) is None:
            tally.add("right")
        else:
            tally.add("wrong", f"{place} is most like frame {other}")
        ends = ends or perf_counter() + seconds
        if perf_counter() > ends:
            break
    return tally


def adapter(library: str) -> Adapter:
    """Import a library's adapter."""
    return cast(Adapter, import_module(f"benchmarks.adapters.{library}"))


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
