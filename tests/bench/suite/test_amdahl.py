"""End-to-end gain from the gain of a stage and its share of the work."""

import pytest

from headrace.bench.benchmark import StageWork
from headrace.bench.suite.ranking import StageCosts, end_to_end_gain

MS = {"decode": 2.0, "preprocess": 1.0, "model": 7.0}


def work(cores, cpu=1.0):
    """Return stages whose CPU time is `cpu` times their wall time."""
    stages = {role: StageWork(ms=ms, cpu_ms=cpu * ms) for role, ms in MS.items()}
    return StageCosts(stages=stages, source="stages", cores=cores)


@pytest.mark.parametrize(
    ("gain", "role", "cores", "in_turn", "overlapped"),
    [
        (2, "model", 8, 10 / 6.5, 2),
        (14, "model", 8, 10 / 3.5, 7),  # preprocessing is next
        (2, "decode", 8, 10 / 9, 1),  # the model is the bottleneck
        (2, "model", 1, 10 / 6.5, 10 / 6.5),  # one core: sequential despite overlap
        (2, "decode", 1, 10 / 9, 10 / 9),
        (7, "model", 2, 10 / 4, 3.5),  # from 7 ms to 4 ms on two cores
        (1, "model", 2, 1, 1),
    ],
)
def test_a_faster_stage_does_not_change_the_others(gain, role, cores, in_turn, overlapped):
    result = end_to_end_gain(gain, role, work(cores))
    assert result is not None
    assert result.in_turn == pytest.approx(in_turn)
    assert result.overlapped == pytest.approx(overlapped)


def test_a_model_on_all_cores_leaves_none_for_overlap():
    result = end_to_end_gain(2, "decode", work(2, cpu=2.0))
    assert result is not None
    assert result.overlapped == pytest.approx(result.in_turn)


def test_a_model_on_a_gpu_uses_no_core():
    stages = {**work(1).stages, "model": StageWork(ms=7.0, cpu_ms=0.0)}
    result = end_to_end_gain(2, "decode", StageCosts(stages=stages, source="stages", cores=1))
    assert result is not None
    assert result.overlapped == 1


def test_the_end_to_end_gain_is_at_most_the_gain_of_the_stage():
    for gain in (1.1, 2, 50):
        for role in MS:
            for cores in (1, 2, 3, 8):
                for cpu in (0.1, 1, 3):
                    result = end_to_end_gain(gain, role, work(cores, cpu))
                    assert result is not None
                    assert 1 <= result.in_turn <= gain
                    assert 1 <= result.overlapped <= gain + 1e-9


def test_a_stage_of_unknown_work_has_no_end_to_end_gain():
    assert end_to_end_gain(2, "sink", work(2)) is None


def test_work_is_listed_in_pipeline_order():
    assert work(2).words == "decoding 2.00, preprocessing 1.00, the model 7.00 ms"
    assert work(2).costliest == "model"
