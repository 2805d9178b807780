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


def test_what_the_loop_does_to_take_a_batch_over_is_no_shorter_with_more_ahead() -> None:
    times = ([5.0] * 50, [60.0] * 50)
    few, many = (replay_ms(*times, workers=1, prefetch=n) for n in (2, 16))
    assert few == many == pytest.approx(60.0)
