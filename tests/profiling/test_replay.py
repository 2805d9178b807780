"""Replaying a loop's own times gives what a DataLoader with other workers would."""

import pytest

from headrace.profiling.findings.replay import replay_ms


@pytest.mark.parametrize(
    ("batch_ms", "step_ms", "workers", "expected"),
    [
        (30.0, 10.0, 0, 40.0),  # one after the other
        (30.0, 10.0, 1, 30.0),  # the worker is the slower side
        (30.0, 10.0, 2, 15.0),
        (30.0, 10.0, 3, 10.0),  # the loop is
        (30.0, 10.0, 9, 10.0),
    ],
)
def test_even_times_give_the_slower_side(batch_ms, step_ms, workers, expected) -> None:
    found = replay_ms([batch_ms] * 50, [step_ms] * 50, workers=workers, prefetch=2)
    assert found == pytest.approx(expected, rel=0.01)


def test_batches_ahead_even_out_what_is_uneven() -> None:
    batches, steps = [1.0] * 15 + [150.0], [11.0] * 16
    few, many = (replay_ms(batches, steps, workers=1, prefetch=n) for n in (2, 16))
    assert few > 1.5 * many
    assert many == pytest.approx(11.0, rel=0.05)


def test_a_long_way_needs_more_batches_under_way() -> None:
    times = ([5.0] * 50, [10.0] * 50)
    assert replay_ms(*times, workers=1, prefetch=2, handover_ms=60.0) > 30.0
    assert replay_ms(*times, workers=1, prefetch=16, handover_ms=60.0) == pytest.approx(10.0)
