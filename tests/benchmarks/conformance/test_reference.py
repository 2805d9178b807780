"""Tests of benchmarks/conformance/reference.py: what a plain decode keeps, and what it answers."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.conformance.reference import NO_PTS, UNKNOWN, Reference, digest, thumbnail
from conformance_fakes import grey, reference_of
from headrace.video.shape import Orientation


@pytest.mark.parametrize(
    ("complaints", "keyframes", "reached"),
    [
        pytest.param([], [0], [], id="none"),
        pytest.param([2], [0], [2, 3, 4, 5, 6, 7], id="to the end where no keyframe follows"),
        pytest.param([2], [0, 4], [2, 3, 4, 5, 6, 7], id="past the first keyframe"),
        pytest.param([2], [0, 4, 6], [2, 3, 4, 5], id="up to the second"),
        pytest.param([0, 6], [0, 2, 4], [0, 1, 2, 3, 6, 7], id="two of them"),
        pytest.param([4], [0, 4, 5, 6], [4, 5], id="a keyframe itself"),
    ],
)
def test_a_complaint_reaches_up_to_the_second_keyframe_behind_it(
    complaints: list[int], keyframes: list[int], reached: list[int]
) -> None:
    found = reference_of([0] * 8, complaints=complaints, keyframes=keyframes).is_complained_of
    assert np.flatnonzero(found).tolist() == reached


def test_a_complaint_reaches_the_frames_of_its_packets_whatever_their_order() -> None:
    shuffled = reference_of([0] * 4, complaints=[2], keyframes=[0], ordinals=[0, 3, 1, 2])
    assert np.flatnonzero(shuffled.is_complained_of).tolist() == [1, 3]


def test_a_complaint_reaches_what_is_shown_before_that_keyframe_and_sent_behind_it() -> None:
    """Frames 2 and 3 are leading pictures of the keyframe 4."""
    leading = reference_of(
        [0] * 8, complaints=[0], keyframes=[0, 2, 4], ordinals=[0, 2, 5, 6, 4, 7, 8, 9]
    )
    assert np.flatnonzero(leading.is_complained_of).tolist() == [0, 1, 2, 3]


def test_any_complaint_reaches_frames_whose_packet_is_unknown() -> None:
    unknown = reference_of([0] * 2, complaints=[9], ordinals=[0, UNKNOWN])
    assert unknown.is_complained_of.tolist() == [False, True]


def test_places_count_what_was_lost_before() -> None:
    times = [0, 10, 30, NO_PTS]
    assert reference_of([0] * 4, pts=times, lost_pts=[20]).places.tolist() == [0, 1, 3, 3]


def test_a_picture_is_found_by_its_bytes_nearest_to_where_it_was_expected() -> None:
    reference = reference_of([5, 6, 5, 7, 5])
    assert reference.find(digest(grey(5)), 3, is_small=False) == 2
    assert reference.find(digest(grey(9)), 3, is_small=False) is None
    assert reference.find(digest(grey(7)[:4, :4]), 0, is_small=True) == 3


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    turned = Orientation(True, False, True)
    kept = reference_of([1, 2], complaints=[1], pts=[3, NO_PTS], orientation=turned)
    kept.save(tmp_path / "kept.npz")
    loaded = Reference.load(tmp_path / "kept.npz")
    assert loaded.orientation == turned
    for name in ("own", "small", "thumbnails", "sizes", "pts", "complaints", "keyframes"):
        assert np.array_equal(getattr(loaded, name), getattr(kept, name)), name


def test_pictures_of_other_shapes_have_other_digests() -> None:
    assert digest(grey(1)) != digest(grey(1).reshape(10, 8, 3))


@pytest.mark.parametrize("size", [(32, 64), (75, 53), (8, 10), (720, 1280)])
def test_a_thumbnail_of_any_size_keeps_where_it_is_bright(size: tuple[int, int]) -> None:
    picture = np.zeros((*size, 3), np.uint8)
    picture[: size[0] // 2, :, 1] = 200
    found = thumbnail(picture)
    assert found.shape == (32, 32, 3)
    assert (found[:15, :, 1] == 200).all()
    assert (found[17:] == 0).all()
    assert (found[..., 0] == 0).all()
