"""Tests of benchmarks/conformance/libs.py: a library is told by which frame it gives."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.conformance.libs import another, judge_library
from benchmarks.conformance.reference import Reference, thumbnail
from benchmarks.conformance.tally import Tally
from conformance_fakes import grey, reference_of
from headrace.video.shape import Orientation

LEVELS = [10, 20, 30, 40, 40, 40, 70, 80]


def judged(read: Callable[[int], NDArray[np.uint8] | None], reference: Reference) -> Tally:
    return judge_library(
        "fake",
        Path("a.mp4"),
        reference,
        places=8,
        seed=0,
        seconds=60,
        libraries={"fake": lambda _: read},
    )


def test_right_frames_are_right_though_every_pixel_differs() -> None:
    found = judged(lambda index: grey(LEVELS[index] + 2), reference_of(LEVELS))
    assert (found.right, found.wrong) == (8, 0)


def test_the_neighbour_is_wrong_where_it_is_another_picture() -> None:
    """Three frames are alike: the neighbour in front of the last two of them is no fault."""
    found = judged(lambda index: grey(LEVELS[max(0, index - 1)]), reference_of(LEVELS))
    assert (found.right, found.wrong) == (3, 5)
    assert "7 is most like frame 6" in found.examples


def test_an_exception_is_a_refusal() -> None:
    def read(index: int) -> NDArray[np.uint8]:
        raise RuntimeError("no frame there")

    found = judged(read, reference_of(LEVELS, complaints=[6]))
    assert (found.refused_with, found.refused_without) == (2, 6)
    assert found.reason == "RuntimeError: no frame there"


def test_no_picture_is_a_refusal() -> None:
    assert judged(lambda index: None, reference_of(LEVELS)).refused_without == 8


def test_frames_that_ffmpeg_lost_may_be_counted_or_not() -> None:
    """Of 0 10 (20) 30, the last is frame 2 as they come, and frame 3 as they were sent."""
    reference = reference_of([10, 20, 30, 40], pts=[0, 10, 30, 40], lost_pts=[20])
    assert another(reference, 3, grey(30)) is None
    assert another(reference, 3, grey(40)) is None
    assert another(reference, 3, grey(20)) == 1


def test_a_library_that_does_not_turn_pictures_is_told_by_their_contents() -> None:
    turned = Orientation(True, False, False)
    ramp = np.arange(80, dtype=np.uint8).reshape(8, 10, 1).repeat(3, 2)
    levels = reference_of([0, 0], orientation=turned)
    levels.thumbnails[0], levels.thumbnails[1] = thumbnail(turned.upright(ramp)), 30
    assert another(levels, 0, ramp) is None
    assert another(levels, 1, ramp) == 0
