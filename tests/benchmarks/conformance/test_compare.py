"""Matches of frames, and their outcomes: right, wrong and refused."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.conformance import files
from benchmarks.conformance.compare_frames import Judge, align, run_job
from benchmarks.conformance.files import judge_library, nearest_other
from benchmarks.conformance.reference import NO_PTS, UNKNOWN, Reference, digest, thumbnail
from benchmarks.conformance.verdict import Plan, Verdict
from conformance_fakes import grey, reference_of
from headrace import DecodeError, DecodeJob
from headrace.video.frame_format import Orientation


def ranges(index, reference, *, is_whole=True):
    times = np.array(index, np.int64), np.array(reference, np.int64)
    return [list(frames) for frames in align(*times, is_whole=is_whole)]


@pytest.mark.parametrize(
    ("index", "reference", "expected"),
    [
        pytest.param([0, 1, 2], [0, 1, 2], [[0], [1], [2]], id="the same times"),
        pytest.param([0, 1, 2], [7, 8, 9], [[0], [1], [2]], id="other times, as many frames"),
        pytest.param([0, 0, 0], [0, 0, 0], [[0], [1], [2]], id="times that repeat"),
        pytest.param([0, 1, 2], [NO_PTS] * 3, [[0], [1], [2]], id="no times"),
        pytest.param([0, 1, 2], [1, 2, NO_PTS], [[0], [1], [2]], id="a time is missing"),
        pytest.param([0, 1, 2, 3], [0, 1, 3], [[0], [1], [], [2]], id="one is lost"),
        pytest.param([0, 1, 2, 3], [2, 3], [[], [], [0], [1]], id="the first are lost"),
        pytest.param([0, 2, 3], [0, 1, 2, 3], [[0], [2], [3]], id="the index lacks one"),
        pytest.param(
            [0, 1, 1, 1, 2, 3],
            [0, 1, 1, 2, 3],
            [[0], [1], [1, 2], [2], [3], [4]],
            id="one of several with one time is lost",
        ),
        pytest.param(
            [0, 1, 1, 2],
            [0, 1, 1, 1, 2],
            [[0], [1, 2], [2, 3], [4]],
            id="one time, index lacks one",
        ),
        pytest.param([0, 1, 2], [NO_PTS] * 2, [[0], [0, 1], [1]], id="one lost without times"),
        pytest.param([0, 1], [], [[], []], id="nothing was decoded"),
    ],
)
def test_frames_are_matched_by_times_and_then_by_order(index, reference, expected):
    assert ranges(index, reference) == expected


def test_a_frame_lost_at_each_end_shifts_the_frames_between():
    """Both have equally many frames, but 19 of 20 times show that they are not the same."""
    shifted = ranges(list(range(20)), list(range(1, 21)))
    assert shifted == [[], *([n] for n in range(19))]


def test_a_few_equal_times_shift_no_frame():
    assert ranges([0, 10, 20, 30], [10, 20, 33, 44]) == [[0], [1], [2], [3]]


def test_frames_that_the_index_lacks_are_listed():
    judge = Judge(reference_of([0] * 5), np.array([0, 2, 3]))
    assert (judge.lacking, judge.loose) == ([1, 4], 0)


def test_frames_with_several_matches_are_counted():
    assert Judge(reference_of([0] * 2, pts=[NO_PTS] * 2), np.arange(3)).loose == 1


def test_the_matches_end_with_a_partial_plain_decode():
    assert ranges([0, 1, 2, 3, 4, 5], [0, 2, 3], is_whole=False) == [[0], [], [1], [2]]
    assert ranges([0, 0, 0, 0], [0, 0], is_whole=False) == [[0], [1]]


class FakeDecoder:
    """Decoder that returns gray images by number, and refuses the frames `missing`."""

    def __init__(self, levels, missing=()):
        self.levels, self.missing = levels, missing

    def run(self, job):
        for index in job.wanted:
            if index in self.levels:
                yield index, grey(self.levels[index])
        if self.missing:
            raise DecodeError("damaged there", source="a.mp4", missing=self.missing)


NEIGHBOR = {"wrong": 1, "examples": ("1 is frame 2 of the plain decode, not 1",)}
REFUSED = {"refused_without": 1, "examples": ("1 is refused",)}
LEFT_OUT = {"refused_with": 1, "wrong": 1, "examples": ("3 is missing without an error",)}
CASES = {
    "equal frames": ({1: 11, 2: 12}, (), [], {"right": 2}),
    "a neighbor": ({1: 12, 2: 12}, (), [], {"right": 1, **NEIGHBOR}),
    "a neighbor where FFmpeg complains": ({1: 12}, (), [0], NEIGHBOR),
    "no frame": ({1: 99}, (), [], {"wrong": 1, "examples": ("1 differs from every frame",)}),
    "refused": ({2: 12}, (1,), [], {"right": 1, **REFUSED}),
    "refused with a complaint": ({2: 12}, (1,), [1], {"right": 1, "refused_with": 1}),
    "a complaint elsewhere": ({}, (1,), [3], REFUSED),
    "neither delivered nor refused": ({1: 11, 3: None}, (2,), [2], {"right": 1, **LEFT_OUT}),
}
"""Levels of delivered frames, refused frames, complaints, and the verdict."""


@pytest.mark.parametrize(("levels", "missing", "complaints", "expected"), CASES.values(), ids=CASES)
def test_frames_are_compared_with_the_plain_decode_and_faults_are_listed(
    levels, missing, complaints, expected
):
    judge = Judge(reference_of([10, 11, 12, 13], complaints=complaints), np.arange(4))
    decoder = FakeDecoder({k: v for k, v in levels.items() if v is not None}, missing)
    run_job(decoder, DecodeJob(tuple(sorted({*levels, *missing}))), judge)
    reason = "damaged there" if missing else ""
    assert judge.verdict("seek") == Verdict(party="headrace", way="seek", reason=reason, **expected)


def test_a_frame_that_the_plain_decode_lost_must_be_refused():
    reference = reference_of([10, 12], pts=[0, 2], complaints=[1])
    delivering, refusing = (Judge(reference, np.arange(3)) for _ in range(2))
    run_job(FakeDecoder({0: 10, 1: 11, 2: 12}), DecodeJob((0, 1, 2)), delivering)
    run_job(FakeDecoder({0: 10, 2: 12}, missing=(1,)), DecodeJob((0, 1, 2)), refusing)
    assert delivering.verdict("seek").kind == "wrong"
    assert refusing.verdict("seek").kind == "refused with complaint"
    assert refusing.verdict("seek").right == 2


def test_frames_that_the_index_lacks_count_as_refused():
    judge = Judge(reference_of([10, 11, 12]), np.array([0, 2]))
    judge.unindexed()
    assert judge.verdict("order").refused_without == 1


def test_frames_after_the_end_of_the_plain_decode_are_not_counted():
    judge = Judge(reference_of([10, 11]), np.arange(2))
    judge.picture(2, grey(99))
    judge.refused([3], "no")
    judge.left_out([4])
    assert judge.verdict("order").frames == 0


def test_small_images_are_compared_with_small_images():
    judge = Judge(reference_of([10, 11]), np.arange(2))
    judge.picture(1, grey(11)[:4, :4], is_small=True)
    judge.picture(1, grey(11), is_small=True)
    assert (judge.verdict("plan").right, judge.verdict("plan").wrong) == (1, 1)


LEADING = {"keyframes": [0, 2, 4], "ordinals": [0, 2, 5, 6, 4, 7, 8, 9]}
"""Frames 2 and 3 are leading frames of the keyframe 4."""
AFFECTED = {
    "none": ({"complaints": []}, []),
    "to the end": ({"complaints": [2]}, [2, 3, 4, 5, 6, 7]),
    "past a keyframe": ({"complaints": [2], "keyframes": [0, 4]}, [2, 3, 4, 5, 6, 7]),
    "up to the second": ({"complaints": [2], "keyframes": [0, 4, 6]}, [2, 3, 4, 5]),
    "two of them": ({"complaints": [0, 6], "keyframes": [0, 2, 4]}, [0, 1, 2, 3, 6, 7]),
    "a keyframe itself": ({"complaints": [4], "keyframes": [0, 4, 5, 6]}, [4, 5]),
    "any order": ({"complaints": [2], "ordinals": [0, 3, 1, 2, 0, 0, 0, 0]}, [1, 3]),
    "leading frames": ({"complaints": [0], **LEADING}, [0, 1, 2, 3]),
    "unknown packet": ({"complaints": [9], "ordinals": [0, UNKNOWN, *range(2, 8)]}, [1]),
}


@pytest.mark.parametrize(("fields", "affected"), AFFECTED.values(), ids=AFFECTED)
def test_a_complaint_affects_frames_up_to_the_second_keyframe_after_it(fields, affected):
    is_affected = reference_of([0] * 8, **fields).is_complained_of
    assert np.flatnonzero(is_affected).tolist() == affected


def test_places_count_earlier_lost_frames():
    times = [0, 10, 30, NO_PTS]
    assert reference_of([0] * 4, pts=times, lost_pts=[20]).places.tolist() == [0, 1, 3, 3]


def test_an_image_is_found_by_its_digest_nearest_to_a_frame():
    reference = reference_of([5, 6, 5, 7, 5])
    assert reference.find(digest(grey(5)), 3, is_small=False) == 2
    assert reference.find(digest(grey(9)), 3, is_small=False) is None
    assert reference.find(digest(grey(7)[:4, :4]), 0, is_small=True) == 3


def test_a_saved_reference_is_loaded(tmp_path):
    rotated = Orientation(True, False, True)
    reference = reference_of([1, 2], complaints=[1], pts=[3, NO_PTS], orientation=rotated)
    reference.save(tmp_path / "reference.npz")
    loaded = vars(Reference.load(tmp_path / "reference.npz"))
    for name, value in vars(reference).items():
        assert np.array_equal(loaded[name], value), name
        assert type(loaded[name]) is type(value), name


def test_images_of_other_shapes_have_other_digests():
    assert digest(grey(1)) != digest(grey(1).reshape(10, 8, 3))


@pytest.mark.parametrize("size", [(32, 64), (75, 53), (8, 10), (720, 1280)])
def test_a_thumbnail_of_any_size_keeps_bright_areas(size):
    picture = np.zeros((*size, 3), np.uint8)
    picture[: size[0] // 2, :, 1] = 200
    small = thumbnail(picture)
    assert small.shape == (32, 32, 3)
    assert (small[:15, :, 1] == 200).all()
    assert (small[17:] == 0).all()
    assert (small[..., 0] == 0).all()


LEVELS = [10, 20, 30, 40, 40, 40, 70, 80]


def judged_library(read, reference):
    open_file = lambda _: lambda indices: [read(index) for index in indices]  # noqa: E731
    return judge_library("fake", Path("a.mp4"), reference, Plan(places=8), 60, open_file)


def test_the_time_limit_of_a_library_starts_after_its_first_frame(monkeypatch):
    """On a busy machine, an import took longer than the limit."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(files, "perf_counter", lambda: clock.now)

    def read(index):
        clock.now += 25.0 if clock.now else 90.0
        return grey(LEVELS[index])

    assert judged_library(read, reference_of(LEVELS)).counts == {"right": 4}


def broken(index):
    raise RuntimeError("no frame there")


READS: dict[str, tuple[Callable[[int], Any], list[int], tuple[dict[str, int], str]]] = {
    "other pixels": (lambda n: grey(LEVELS[n] + 2), [], ({"right": 8}, "")),
    # Three consecutive frames are equal, so two of the neighbors are right.
    "neighbors": (lambda n: grey(LEVELS[max(0, n - 1)]), [], ({"right": 3, "wrong": 5}, "")),
    "an exception": (
        *(broken, [6]),
        ({"refused_with": 2, "refused_without": 6}, "RuntimeError: no frame there"),
    ),
}


@pytest.mark.parametrize(("read", "complaints", "expected"), READS.values(), ids=READS)
def test_frames_of_a_library_are_right_wrong_or_refused(read, complaints, expected):
    tally = judged_library(read, reference_of(LEVELS, complaints=complaints))
    assert (tally.counts, tally.reason) == expected
    assert ("7 is most like frame 6" in tally.examples) == ("wrong" in tally.counts)


def test_a_library_may_count_frames_that_ffmpeg_lost():
    """Of the times 0 10 (20) 30, the last is frame 2 without the lost frame, and 3 with it."""
    reference = reference_of([10, 20, 30, 40], pts=[0, 10, 30, 40], lost_pts=[20])
    assert nearest_other(reference, 3, grey(30)) is None
    assert nearest_other(reference, 3, grey(40)) is None
    assert nearest_other(reference, 3, grey(20)) == 1


def test_frames_of_a_library_that_does_not_rotate_are_compared_in_each_orientation():
    rotated = Orientation(True, False, False)
    ramp = np.arange(80, dtype=np.uint8).reshape(8, 10, 1).repeat(3, 2)
    reference = reference_of([0, 0], orientation=rotated)
    reference.thumbnails[0], reference.thumbnails[1] = thumbnail(rotated.upright(ramp)), 30
    assert nearest_other(reference, 0, ramp) is None
    assert nearest_other(reference, 1, ramp) == 0
