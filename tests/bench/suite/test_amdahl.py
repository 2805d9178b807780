"""The gain of a stage becomes one of the whole by the share of the work it has."""

import pytest

from headrace.bench.benchmark import StageWork
from headrace.bench.suite.end_to_end_gain import StageCosts, end_to_end_gain

MS = {"decode": 2.0, "preprocess": 1.0, "model": 7.0}


def work(cores, cpu=1.0):
    """Return stages of which each takes `cpu` times its wall time of the processor."""
    stages = {role: StageWork(ms=ms, cpu_ms=cpu * ms) for role, ms in MS.items()}
    return StageCosts(stages=stages, source="stages", cores=cores)


@pytest.mark.parametrize(
    ("gain", "role", "cores", "in_turn", "overlapped"),
    [
        (2, "model", 8, 10 / 6.5, 2),
        (14, "model", 8, 10 / 3.5, 7),  # preprocessing is next
        (2, "decode", 8, 10 / 9, 1),  # the model sets the pace
        (2, "model", 1, 10 / 6.5, 10 / 6.5),  # one core: in turn, whatever overlaps
        (2, "decode", 1, 10 / 9, 10 / 9),
        (7, "model", 2, 10 / 4, 3.5),  # from 7 ms to what two cores need for 4 ms
        (1, "model", 2, 1, 1),
    ],
)
def test_a_stage_that_is_faster_leaves_the_others_as_they_were(
    gain, role, cores, in_turn, overlapped
):
    found = end_to_end_gain(gain, role, work(cores))
    assert found is not None
    assert found.in_turn == pytest.approx(in_turn)
    assert found.overlapped == pytest.approx(overlapped)


def test_a_model_that_keeps_all_cores_busy_leaves_none_to_overlap_with():
    found = end_to_end_gain(2, "decode", work(2, cpu=2.0))
    assert found is not None
    assert found.overlapped == pytest.approx(found.in_turn)


def test_a_model_on_a_device_of_its_own_takes_no_core():
    stages = {**work(1).stages, "model": StageWork(ms=7.0, cpu_ms=0.0)}
    found = end_to_end_gain(2, "decode", StageCosts(stages=stages, source="stages", cores=1))
    assert found is not None
    assert found.overlapped == 1


def test_no_gain_of_the_whole_is_above_that_of_the_stage():
    for gain in (1.1, 2, 50):
        for role in MS:
            for cores in (1, 2, 3, 8):
                for cpu in (0.1, 1, 3):
                    found = end_to_end_gain(gain, role, work(cores, cpu))
                    assert found is not None
                    assert 1 <= found.in_turn <= gain
                    assert 1 <= found.overlapped <= gain + 1e-9


def test_of_a_stage_whose_work_is_not_known_there_is_none():
    assert end_to_end_gain(2, "sink", work(2)) is None


def test_work_is_told_in_the_order_of_the_frames():
    assert work(2).words == "decoding 2.00, preprocessing 1.00, the model 7.00 ms"
    assert work(2).costliest == "model"
