"""Tests of benchmarks/live/soaked.py: whether a long run stayed as it was."""

from typing import Any

import pytest

from benchmarks.live.record import Series
from live_benchmark_fakes import soaked

AT = (0.0, 100.0, 200.0, 300.0, 400.0)


def test_a_run_that_stays_as_it_is_is_right() -> None:
    assert soaked().is_right
    assert soaked().verdicts()[-1] == "all of it: yes"


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "failed"},
        {"delivered": 1},
        {"rss_bytes": Series(at_seconds=AT, values=(1e9, 1e9, 1.1e9, 1.2e9, 1.3e9))},
        {"threads": Series(at_seconds=AT, values=(9, 9, 9, 9, 10))},
        {"open_files": Series(at_seconds=AT, values=(9, 9, 9, 9, 10))},
        {"warm_up_seconds": 500.0},
    ],
)
def test_what_grows_or_is_lost_is_not(change: dict[str, Any]) -> None:
    assert not soaked(**change).is_right
    assert soaked(**change).verdicts()[-1] == "all of it: no"


def test_the_record_of_the_steps_may_grow() -> None:
    growing = Series(at_seconds=AT, values=(1e9, 1e9, 1.005e9, 1.010e9, 1.015e9))
    assert soaked(rss_bytes=growing, frames_per_second=1000.0).is_memory_flat
    assert not soaked(rss_bytes=growing, frames_per_second=1.0).is_memory_flat
