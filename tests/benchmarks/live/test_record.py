"""Tests of benchmarks/live/record.py: verdicts are computed from figures."""

import pytest

from benchmarks.live.record import Overloaded, Quantiles, Series
from live_benchmark_fakes import overlap_case, overloaded


def test_a_slope_is_by_least_squares_and_growth_is_over_its_time() -> None:
    series = Series(at_seconds=(0, 1, 2, 3), values=(5, 7, 9, 11))
    assert series.slope == pytest.approx(2)
    assert series.growth == pytest.approx(6)
    noisy = Series(at_seconds=(0, 1, 2), values=(0, 3, 0))
    assert noisy.slope == pytest.approx(0)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_samples_have_no_slope(count: int) -> None:
    series = Series(at_seconds=(1.0,) * count, values=(4.0,) * count)
    assert (series.slope, series.growth) == (0, 0)


def test_after_leaves_out_what_was_sampled_before() -> None:
    series = Series(at_seconds=(0, 5, 10), values=(1, 2, 3)).after(5)
    assert series == Series(at_seconds=(5, 10), values=(2, 3))


def test_percentiles_say_when_there_are_too_few() -> None:
    assert Quantiles.of([]) is None
    few = Quantiles.of([3.0, 1.0, 2.0])
    assert few == Quantiles(count=3, p50=2.0, p95=None, worst=3.0)
    many = Quantiles.of([float(each) for each in range(100)])
    assert many is not None
    assert many.p95 == 94.0


@pytest.mark.parametrize(
    ("change", "question"),
    [
        ({"delivered": 299}, "is_conserved"),
        ({"max_staleness_ms": 189.0}, "is_fresh"),
        ({"rss_bytes": Series(at_seconds=(1, 2, 3), values=(1e8, 2e8, 3e8))}, "is_memory_flat"),
        ({"rss_bytes": Series(at_seconds=(), values=())}, "is_memory_flat"),
    ],
)
def test_overload_is_judged_by_its_figures(change: dict[str, object], question: str) -> None:
    right: Overloaded = overloaded()
    assert right.is_conserved
    assert right.is_fresh
    assert right.is_memory_flat
    assert not getattr(right.model_copy(update=change), question)


def test_the_gain_of_threads_stands_beside_what_stages_and_cores_allow() -> None:
    case = overlap_case(sequential=3.0, threaded=1.6, cpu=3.0)
    assert case.gains == [pytest.approx(1.875)]
    assert case.by_stages == [pytest.approx(2.0)]
    assert case.by_cores == [pytest.approx(2.0)]
    assert case.is_of_stages
    assert case.share == pytest.approx(0.9375)
    assert not overlap_case(sequential=3.0, threaded=2.0, cpu=4.0).is_of_stages
