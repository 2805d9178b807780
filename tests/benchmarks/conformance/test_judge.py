"""Tests of benchmarks/conformance/judge.py: what counts as right, wrong and refused."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.conformance.judge import Judge, run_job
from conformance_fakes import grey, reference_of
from headrace.decode.protocol import DecodeJob
from headrace.errors import DecodeError


class FakeDecoder:
    """Gives grey pictures by number; refuses those that it is told to."""

    def __init__(self, levels: dict[int, int], missing: tuple[int, ...] = ()) -> None:
        self.levels, self.missing = levels, missing

    def run(self, job: DecodeJob) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        for index in job.wanted:
            if index in self.levels:
                yield index, grey(self.levels[index])
        if self.missing:
            raise DecodeError("damaged there", source="a.mp4", missing=self.missing)


def judged(decoder: FakeDecoder, wanted: tuple[int, ...], **reference: object) -> SimpleNamespace:
    judge = Judge(reference_of([10, 11, 12, 13], **reference), np.arange(4))
    run_job(decoder, DecodeJob(wanted), judge)
    return judge.verdict("seek")


def test_equal_frames_are_right() -> None:
    found = judged(FakeDecoder({1: 11, 2: 12}), (1, 2))
    assert (found.kind, found.right, found.examples) == ("right", 2, ())


def test_a_neighbour_is_wrong_and_named() -> None:
    found = judged(FakeDecoder({1: 12, 2: 12}), (1, 2))
    assert (found.kind, found.right, found.wrong) == ("wrong", 1, 1)
    assert found.examples == ("1 is frame 2 of the plain decode, not 1",)


def test_a_picture_that_the_plain_decode_never_gives_is_wrong() -> None:
    found = judged(FakeDecoder({1: 99}), (1,))
    assert found.examples == ("1 differs from every frame",)


def test_a_wrong_picture_is_wrong_where_ffmpeg_complains_too() -> None:
    assert judged(FakeDecoder({1: 12}), (1,), complaints=[0]).kind == "wrong"


@pytest.mark.parametrize(
    ("complaints", "kind"), [([], "refused without"), ([1], "refused with complaint")]
)
def test_what_is_refused_is_held_against_ffmpegs_complaints(
    complaints: list[int], kind: str
) -> None:
    found = judged(FakeDecoder({2: 12}, missing=(1,)), (1, 2), complaints=complaints)
    assert (found.kind, found.right, found.frames) == (kind, 1, 2)
    assert found.reason == "damaged there"


def test_a_complaint_elsewhere_excuses_nothing() -> None:
    assert judged(FakeDecoder({}, missing=(1,)), (1,), complaints=[3]).kind == "refused without"


def test_a_frame_that_neither_comes_nor_is_named_is_wrong() -> None:
    found = judged(FakeDecoder({1: 11}, missing=(2,)), (1, 2, 3), complaints=[2])
    assert (found.right, found.refused_with, found.wrong) == (1, 1, 1)
    assert found.examples == ("3 is left out without a word",)


def test_a_frame_that_the_plain_decode_lost_must_be_refused() -> None:
    reference = reference_of([10, 12], pts=[0, 2], complaints=[1])
    gives, refuses = (Judge(reference, np.arange(3)) for _ in range(2))
    run_job(FakeDecoder({0: 10, 1: 11, 2: 12}), DecodeJob((0, 1, 2)), gives)
    run_job(FakeDecoder({0: 10, 2: 12}, missing=(1,)), DecodeJob((0, 1, 2)), refuses)
    assert gives.verdict("seek").kind == "wrong"
    assert refuses.verdict("seek").kind == "refused with complaint"
    assert refuses.verdict("seek").right == 2


def test_frames_that_the_index_lacks_count_as_refused() -> None:
    judge = Judge(reference_of([10, 11, 12]), np.array([0, 2]))
    judge.unindexed()
    assert judge.verdict("order").refused_without == 1


def test_frames_behind_the_end_of_the_plain_decode_are_not_judged() -> None:
    judge = Judge(reference_of([10, 11]), np.arange(2))
    judge.picture(2, grey(99))
    judge.refused([3], "no")
    judge.left_out([4])
    assert judge.verdict("order").frames == 0


def test_small_pictures_are_held_against_small_ones() -> None:
    judge = Judge(reference_of([10, 11]), np.arange(2))
    judge.picture(1, grey(11)[:4, :4], is_small=True)
    judge.picture(1, grey(11), is_small=True)
    assert (judge.verdict("plan").right, judge.verdict("plan").wrong) == (1, 1)
