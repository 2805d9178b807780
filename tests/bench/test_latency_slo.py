"""What keeps a promise and what breaks it, in words."""

import pytest

from headrace.bench.live_capacity import Promise

PROMISE = Promise(p95_ms=100, max_drop=0.01)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"p95_ms": 100.0, "drop_share": 0.01}, ()),
        ({"p95_ms": 143.0}, ("p95 latency 143 ms",)),
        (
            {"drop_share": 0.123, "dropped": {"overflow at decode": 9, "stale at batch": 3}},
            ("12 % dropped (overflow at decode: 9, stale at batch: 3)",),
        ),
        ({"drop_share": 0.012}, ("1.2 % dropped ()",)),
        (
            {"p95_ms": None, "results": 1},
            ("only 1 result came out, 90 are needed to tell a p95",),
        ),
        ({"p95_ms": 200.0, "drop_share": 1.0}, ("p95 latency 200 ms", "100 % dropped ()")),
    ],
)
def test_what_breaks_it_is_said(figures, said):
    usual = {"p95_ms": 50.0, "results": 200, "drop_share": 0.0, "dropped": {}}
    assert PROMISE.broken_by(**{**usual, **figures}) == said


def test_it_is_said_in_words():
    assert PROMISE.words == "p95 latency at most 100 ms, at most 1 % dropped"
    assert Promise(p95_ms=5, max_drop=0).words == "p95 latency at most 5.00 ms, at most 0 % dropped"


def test_a_step_has_results_enough_for_a_p95_also_where_frames_are_dropped():
    assert Promise(p95_ms=1, max_drop=0.5).results_needed * 0.5 >= 90
    assert PROMISE.results_needed * 0.99 >= 90
