"""Which frame is which, and what counts as right, wrong and refused."""

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
    found = align(np.array(index, np.int64), np.array(reference, np.int64), is_whole=is_whole)
    return [list(each) for each in found]


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
            id="one of those of one time is lost",
        ),
        pytest.param(
            [0, 1, 1, 2], [0, 1, 1, 1, 2], [[0], [1, 2], [2, 3], [4]], id="or lacking there"
        ),
        pytest.param([0, 1, 2], [NO_PTS] * 2, [[0], [0, 1], [1]], id="one lost without times"),
        pytest.param([0, 1], [], [[], []], id="nothing was decoded"),
    ],
)
def test_frames_are_matched_by_times_and_then_by_order(index, reference, expected):
    assert ranges(index, reference) == expected


def test_one_lost_at_each_end_moves_the_frames_between():
    """As many frames on both sides, yet not the same ones: 19 of 20 times say so."""
    found = ranges(list(range(20)), list(range(1, 21)))
    assert found == [[], *([n] for n in range(19))]


def test_a_few_equal_times_move_no_frame():
    assert ranges([0, 10, 20, 30], [10, 20, 33, 44]) == [[0], [1], [2], [3]]


def test_frames_that_the_index_lacks_are_named():
    judge = Judge(reference_of([0] * 5), np.array([0, 2, 3]))
    assert (judge.lacking, judge.loose) == ([1, 4], 0)


def test_frames_with_a_choice_are_counted():
    assert Judge(reference_of([0] * 2, pts=[NO_PTS] * 2), np.arange(3)).loose == 1


def test_the_alignment_ends_with_a_plain_decode_that_ended_early():
    assert ranges([0, 1, 2, 3, 4, 5], [0, 2, 3], is_whole=False) == [[0], [], [1], [2]]
    assert ranges([0, 0, 0, 0], [0, 0], is_whole=False) == [[0], [1]]


class FakeDecoder:
    """Gives grey pictures by number; refuses those that it is told to."""

    def __init__(self, levels, missing=()):
        self.levels, self.missing = levels, missing

    def run(self, job):
        for index in job.wanted:
            if index in self.levels:
                yield index, grey(self.levels[index])
        if self.missing:
            raise DecodeError("damaged there", source="a.mp4", missing=self.missing)


NEIGHBOUR = {"wrong": 1, "examples": ("1 is frame 2 of the plain decode, not 1",)}
REFUSED = {"refused_without": 1, "examples": ("1 is refused",)}
LEFT_OUT = {"refused_with": 1, "wrong": 1, "examples": ("3 is left out without a word",)}
CASES = {
    "equal frames": ({1: 11, 2: 12}, (), [], {"right": 2}),
    "a neighbour": ({1: 12, 2: 12}, (), [], {"right": 1, **NEIGHBOUR}),
    "a neighbour where FFmpeg complains": ({1: 12}, (), [0], NEIGHBOUR),
    "no frame": ({1: 99}, (), [], {"wrong": 1, "examples": ("1 differs from every frame",)}),
    "refused": ({2: 12}, (1,), [], {"right": 1, **REFUSED}),
    "refused with a complaint": ({2: 12}, (1,), [1], {"right": 1, "refused_with": 1}),
    "a complaint elsewhere": ({}, (1,), [3], REFUSED),
    "neither given nor named": ({1: 11, 3: None}, (2,), [2], {"right": 1, **LEFT_OUT}),
}
"""Level of each frame that is given, frames that are refused, complaints, and the verdict."""


@pytest.mark.parametrize(("levels", "missing", "complaints", "expected"), CASES.values(), ids=CASES)
def test_frames_are_held_against_the_plain_decode_and_what_is_wrong_is_named(
    levels, missing, complaints, expected
):
    judge = Judge(reference_of([10, 11, 12, 13], complaints=complaints), np.arange(4))
    decoder = FakeDecoder({k: v for k, v in levels.items() if v is not None}, missing)
    run_job(decoder, DecodeJob(tuple(sorted({*levels, *missing}))), judge)
    reason = "damaged there" if missing else ""
    assert judge.verdict("seek") == Verdict(party="headrace", way="seek", reason=reason, **expected)


def test_a_frame_that_the_plain_decode_lost_must_be_refused():
    reference = reference_of([10, 12], pts=[0, 2], complaints=[1])
    gives, refuses = (Judge(reference, np.arange(3)) for _ in range(2))
    run_job(FakeDecoder({0: 10, 1: 11, 2: 12}), DecodeJob((0, 1, 2)), gives)
    run_job(FakeDecoder({0: 10, 2: 12}, missing=(1,)), DecodeJob((0, 1, 2)), refuses)
    assert gives.verdict("seek").kind == "wrong"
    assert refuses.verdict("seek").kind == "refused with complaint"
    assert refuses.verdict("seek").right == 2


def test_frames_that_the_index_lacks_count_as_refused():
    judge = Judge(reference_of([10, 11, 12]), np.array([0, 2]))
    judge.unindexed()
    assert judge.verdict("order").refused_without == 1


def test_frames_behind_the_end_of_the_plain_decode_are_not_judged():
    judge = Judge(reference_of([10, 11]), np.arange(2))
    judge.picture(2, grey(99))
    judge.refused([3], "no")
    judge.left_out([4])
    assert judge.verdict("order").frames == 0


def test_small_pictures_are_held_against_small_ones():
    judge = Judge(reference_of([10, 11]), np.arange(2))
    judge.picture(1, grey(11)[:4, :4], is_small=True)
    judge.picture(1, grey(11), is_small=True)
    assert (judge.verdict("plan").right, judge.verdict("plan").wrong) == (1, 1)


LEADING = {"keyframes": [0, 2, 4], "ordinals": [0, 2, 5, 6, 4, 7, 8, 9]}
"""Frames 2 and 3 are leading pictures of the keyframe 4."""
REACHED = {
    "none": ({"complaints": []}, []),
    "to the end": ({"complaints": [2]}, [2, 3, 4, 5, 6, 7]),
    "past a keyframe": ({"complaints": [2], "keyframes": [0, 4]}, [2, 3, 4, 5, 6, 7]),
    "up to the second": ({"complaints": [2], "keyframes": [0, 4, 6]}, [2, 3, 4, 5]),
    "two of them": ({"complaints": [0, 6], "keyframes": [0, 2, 4]}, [0, 1, 2, 3, 6, 7]),
    "a keyframe itself": ({"complaints": [4], "keyframes": [0, 4, 5, 6]}, [4, 5]),
    "any order": ({"complaints": [2], "ordinals": [0, 3, 1, 2, 0, 0, 0, 0]}, [1, 3]),
    "shown before and sent behind": ({"complaints": [0], **LEADING}, [0, 1, 2, 3]),
    "unknown packet": ({"complaints": [9], "ordinals": [0, UNKNOWN, *range(2, 8)]}, [1]),
}


@pytest.mark.parametrize(("about", "reached"), REACHED.values(), ids=REACHED)
def test_a_complaint_reaches_up_to_the_second_keyframe_behind_it(about, reached):
    found = reference_of([0] * 8, **about).is_complained_of
    assert np.flatnonzero(found).tolist() == reached


def test_places_count_what_was_lost_before():
    times = [0, 10, 30, NO_PTS]
    assert reference_of([0] * 4, pts=times, lost_pts=[20]).places.tolist() == [0, 1, 3, 3]


def test_a_picture_is_found_by_its_bytes_nearest_to_where_it_was_expected():
    reference = reference_of([5, 6, 5, 7, 5])
    assert reference.find(digest(grey(5)), 3, is_small=False) == 2
    assert reference.find(digest(grey(9)), 3, is_small=False) is None
    assert reference.find(digest(grey(7)[:4, :4]), 0, is_small=True) == 3


def test_what_is_saved_is_loaded(tmp_path):
    turned = Orientation(True, False, True)
    kept = reference_of([1, 2], complaints=[1], pts=[3, NO_PTS], orientation=turned)
    kept.save(tmp_path / "kept.npz")
    loaded = vars(Reference.load(tmp_path / "kept.npz"))
    for name, value in vars(kept).items():
        assert np.array_equal(loaded[name], value), name
        assert type(loaded[name]) is type(value), name


def test_pictures_of_other_shapes_have_other_digests():
    assert digest(grey(1)) != digest(grey(1).reshape(10, 8, 3))


@pytest.mark.parametrize("size", [(32, 64), (75, 53), (8, 10), (720, 1280)])
def test_a_thumbnail_of_any_size_keeps_where_it_is_bright(size):
    picture = np.zeros((*size, 3), np.uint8)
    picture[: size[0] // 2, :, 1] = 200
    found = thumbnail(picture)
    assert found.shape == (32, 32, 3)
    assert (found[:15, :, 1] == 200).all()
    assert (found[17:] == 0).all()
    assert (found[..., 0] == 0).all()


LEVELS = [10, 20, 30, 40, 40, 40, 70, 80]


def judged_library(read, reference):
    opened = lambda _: lambda indices: [read(each) for each in indices]  # noqa: E731
    return judge_library("fake", Path("a.mp4"), reference, Plan(places=8), 60, opened)


def test_a_library_that_opens_slowly_has_its_time_from_the_first_frame_on(monkeypatch):
    """An import took longer than all its time, on a machine that was busy."""
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
    # The neighbour in front of the last two of three alike is no fault.
    "neighbours": (lambda n: grey(LEVELS[max(0, n - 1)]), [], ({"right": 3, "wrong": 5}, "")),
    "an exception": (
        *(broken, [6]),
        ({"refused_with": 2, "refused_without": 6}, "RuntimeError: no frame there"),
    ),
}


@pytest.mark.parametrize(("read", "complaints", "expected"), READS.values(), ids=READS)
def test_a_library_gives_the_frame_that_looks_like_it_or_refuses(read, complaints, expected):
    found = judged_library(read, reference_of(LEVELS, complaints=complaints))
    assert (found.counts, found.reason) == expected
    assert ("7 is most like frame 6" in found.examples) == ("wrong" in found.counts)


def test_frames_that_ffmpeg_lost_may_be_counted_or_not():
    """Of 0 10 (20) 30, the last is frame 2 as they come, and frame 3 as they were sent."""
    reference = reference_of([10, 20, 30, 40], pts=[0, 10, 30, 40], lost_pts=[20])
    assert nearest_other(reference, 3, grey(30)) is None
    assert nearest_other(reference, 3, grey(40)) is None
    assert nearest_other(reference, 3, grey(20)) == 1


def test_a_library_that_does_not_turn_pictures_is_told_by_their_contents():
    turned = Orientation(True, False, False)
    ramp = np.arange(80, dtype=np.uint8).reshape(8, 10, 1).repeat(3, 2)
    levels = reference_of([0, 0], orientation=turned)
    levels.thumbnails[0], levels.thumbnails[1] = thumbnail(turned.upright(ramp)), 30
    assert nearest_other(levels, 0, ramp) is None
    assert nearest_other(levels, 1, ramp) == 0
