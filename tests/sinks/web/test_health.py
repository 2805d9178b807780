"""What is said to who watches over a run."""

import pytest

from headrace.sinks.web.health import Health, health
from sinks.web.faked_run import source, status


@pytest.mark.parametrize(
    ("changes", "is_good", "words"),
    [
        ({}, True, "results come"),
        ({"silent_seconds": 10.0}, True, "results come"),
        ({"silent_seconds": 10.5}, False, "no result for 10 s, more than 10 s"),
        ({"silent_seconds": None, "running_seconds": 9.0}, True, "starting"),
        (
            {"silent_seconds": None, "running_seconds": 30.0},
            False,
            "no result for 30 s, more than 10 s",
        ),
        ({"state": "ended"}, False, "the run has ended"),
        (
            {"sources": (source("a"), source("b", state="reconnecting", since_seconds=41))},
            True,
            "results come; b is reconnecting for 41 s",
        ),
        ({"sources": (source("a"), source("b", state="ended"))}, True, "results come"),
    ],
)
def test_health_is_bad_when_no_result_comes_for_too_long(changes, is_good, words):
    assert health(status(**changes), 10) == Health(is_good=is_good, words=words)
