"""The simulated time of a step is that of its slower side: the workers or the loop."""

import pytest

from headrace.profiling.findings.loop_simulation import simulate_ms


def test_the_step_time_of_even_times_is_that_of_the_slower_side() -> None:
    """Without workers, it is the sum; few workers are slower than the loop, many are faster."""
    for workers, expected in {0: 40.0, 1: 30.0, 2: 15.0, 3: 10.0, 9: 10.0}.items():
        ms = simulate_ms([30.0] * 50, [10.0] * 50, workers=workers, prefetch=2)
        assert ms == pytest.approx(expected, rel=0.01), workers


def test_prefetch_evens_out_uneven_batches_and_does_not_shorten_the_step() -> None:
    def by_prefetch(*times: list[float]) -> list[float]:
        return [simulate_ms(*times, workers=1, prefetch=n) for n in (2, 16)]

    few, many = by_prefetch([1.0] * 15 + [150.0], [11.0] * 16)
    assert few > 1.5 * many
    assert many == pytest.approx(11.0, rel=0.05)
    assert by_prefetch([5.0] * 50, [60.0] * 50) == pytest.approx([60.0] * 2)
