"""What stands in the records of predictions and of observing."""

import pytest
from benchmarks.bench_observe import cost
from benchmarks.bench_predictions import Prediction, line
from benchmarks.record import Repeat, Row, TimedResult, origin


def test_a_prediction_is_held_against_the_median() -> None:
    found = Prediction(change="--no-video", predicted=2.2, measured=(1.9, 2.0, 2.6))
    assert found.off_by == pytest.approx(0.1)
    assert line(found) == "--no-video: predicted 2.20 times, measured 2.00 (1.90 to 2.60)"


def test_what_was_not_predicted_is_off_by_nothing() -> None:
    found = Prediction(change="--threads 1", predicted=None, measured=(0.9,))
    assert found.off_by is None
    assert line(found) == "--threads 1: predicted nothing, measured 0.90 (0.90 to 0.90)"


def test_the_cost_of_observing_is_the_median_over_pairs_of_turns() -> None:
    def row(name: str, *seconds: float) -> Row:
        repeats = tuple(Repeat(wall_seconds=each, frames=10) for each in seconds)
        return Row(name=name, kind="num_workers=0", repeats=repeats)

    rows = (row("plain", 1.0, 2.0, 4.0), row("observed", 1.01, 2.0, 4.8))
    result = TimedResult(provenance=origin({}), rows=rows)
    assert cost(result, "num_workers=0")[0] == pytest.approx(1.01)
