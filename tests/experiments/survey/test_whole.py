"""The gain of a stage becomes one of the whole by the share of the work it has."""

import pytest

from headrace.experiments.survey.whole import Work, whole_gain

WORK = Work(ms={"decode": 2.0, "preprocess": 1.0, "model": 7.0}, source="stages", cores=None)


@pytest.mark.parametrize(
    ("gain", "role", "cores", "in_turn", "overlapped"),
    [
        (2, "model", None, 10 / 6.5, 2),
        (7, "model", None, 10 / 4, 3.5),  # decoding is next
        (2, "decode", None, 10 / 9, 1),  # the model sets the pace
        (2, "model", 1, 10 / 6.5, 10 / 6.5),  # one core: in turn, whatever overlaps
        (7, "model", 2, 10 / 4, 3.5),
        (2, "decode", 2, 10 / 9, 1),
        (1, "model", 2, 1, 1),
    ],
)
def test_a_stage_that_is_faster_leaves_the_others_as_they_were(
    gain, role, cores, in_turn, overlapped
):
    work = Work(ms=WORK.ms, source="stages", cores=cores)
    found = whole_gain(gain, role, work)
    assert found is not None
    assert found.in_turn == pytest.approx(in_turn)
    assert found.overlapped == pytest.approx(overlapped)


def test_no_gain_of_the_whole_is_above_that_of_the_stage():
    for gain in (1.1, 2, 50):
        for role in WORK.ms:
            for cores in (None, 1, 2, 3, 8):
                found = whole_gain(gain, role, Work(ms=WORK.ms, source="stages", cores=cores))
                assert found is not None
                assert 1 <= found.in_turn <= gain
                assert 1 <= found.overlapped <= gain + 1e-9


def test_of_a_stage_whose_work_is_not_known_there_is_none():
    assert whole_gain(2, "sink", WORK) is None


def test_work_is_told_in_the_order_of_the_frames():
    assert WORK.words == "decoding 2.00, preprocessing 1.00, the model 7.00 ms"
    assert WORK.costliest == "model"
