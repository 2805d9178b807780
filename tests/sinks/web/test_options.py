"""Where a run may be shown, what a program reads of it, and the door to what needs an extra."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.errors import ConfigError
from headrace.sinks.web.health import Health, health
from headrace.sinks.web.metrics import CONTENT_TYPE, metrics_text
from headrace.sinks.web.open import open_web_view
from headrace.sinks.web.options import WebOptions
from sinks.web.asking import ask
from sinks.web.faked_run import ANY_PORT, DOOR, faked_run, source, status


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"port": -1}, "a port is 0 (any that is free) to 65535, got -1"),
        ({"port": 65536}, "a port is 0 (any that is free) to 65535, got 65536"),
        (
            {"address": "cam.example"},
            "an address is an IP address of this machine, or localhost, got 'cam.example'",
        ),
        (
            {"token": "short"},
            "a token needs 16 characters or more, got 5; leave it out to have one made",
        ),
        (
            {"token": "a token of 16 & more"},
            "a token is made of letters, digits and - . _ ~, so that an address can hold it; give "
            "another one",
        ),
        (
            {"hosts": ("https://cam.example",)},
            "a host is a name without scheme, port and path, got 'https://cam.example'; give it as "
            "in camera.example.org",
        ),
        (
            {"silent_seconds": 0.0},
            "pictures_per_second and silent_seconds must be > 0, got 15 and 0",
        ),
    ],
)
def test_what_cannot_be_is_said_at_once(changes, words):
    with pytest.raises(ConfigError) as caught:
        WebOptions(**changes)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("address", "is_local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False)],
)
def test_this_machine_alone_needs_no_token(address, is_local):
    assert WebOptions(address=address).is_local == is_local


def test_the_token_is_in_no_text():
    assert "a-token-of-a-test" not in repr(WebOptions(token="a-token-of-a-test-0123"))


def test_the_port_is_opened():
    with open_web_view(ANY_PORT, status, [DOOR]) as view:
        assert view.port > 0


STARTING = {"silent_seconds": None, "running_seconds": 9.0}
DOWN = source("b", state="reconnecting", since_seconds=41)


@pytest.mark.parametrize(
    ("changes", "is_good", "words"),
    [
        ({}, True, "results come"),
        ({"silent_seconds": 10.0}, True, "results come"),
        ({"silent_seconds": 10.5}, False, "no result for 10 s, more than 10 s"),
        (STARTING, True, "starting"),
        (STARTING | {"running_seconds": 30.0}, False, "no result for 30 s, more than 10 s"),
        ({"state": "ended"}, False, "the run has ended"),
        ({"sources": (source("a"), DOWN)}, True, "results come; b is reconnecting for 41 s"),
        ({"sources": (source("a"), source("b", state="ended"))}, True, "results come"),
    ],
)
def test_health_is_bad_when_no_result_comes_for_too_long(changes, is_good, words):
    assert health(status(**changes), 10) == Health(is_good=is_good, words=words)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of their names) -> value, as Prometheus reads them."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_figure_is_there_in_seconds_and_shares():
    with faked_run() as run:
        reply = ask(run, "/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE
    expected = {
        ("headrace_frames_arrived_total",): 22_640,
        ("headrace_frames_delivered_total",): 22_101,
        ("headrace_frames_dropped_total", "stale", "decode"): 530,
        ("headrace_frames_in_flight",): 3,
        ("headrace_fps",): 29.0,
        ("headrace_silent_seconds",): 0.031,
        ("headrace_latency_seconds", "arrival", "0.95"): 0.0632,
        ("headrace_latency_jitter_seconds",): 0.00462,
        ("headrace_source_state", DOOR, "live"): 1,
        ("headrace_source_state", DOOR, "stalled"): 0,
        ("headrace_source_fps", DOOR): 30,
        ("headrace_stage_busy_ratio", "model"): 0.86,
        ("headrace_stage_seconds", "0.5", "model"): 0.0289,
        ("headrace_queue_depth", "decoded"): 2,
        ("headrace_queue_capacity", "decoded"): 2,
    }
    assert samples(reply.text).items() >= expected.items()


def test_what_is_not_known_is_absent_and_a_source_may_be_called_anything():
    name = 'a "b"\\\n# HELP'
    unknown = {"silent_seconds": None, "latency": None, "jitter_ms": None}
    found = samples(metrics_text(status(sources=(source(name),), **unknown)).decode())
    absent = {f"headrace_{n}_seconds" for n in ("silent", "latency", "latency_jitter")}
    assert not absent & {key[0] for key in found}
    assert ("headrace_stage_seconds", "0.95", "sink") not in found, "n too small"
    assert found["headrace_source_fps", name] == 30
