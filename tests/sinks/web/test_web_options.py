"""Options and access control of the web page, health, metrics, and the missing extra."""

import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.errors import BackendError
from headrace.sinks.web.open_page import open_web_view
from headrace.sinks.web.prometheus import CONTENT_TYPE, metrics_text
from headrace.sinks.web.status import health
from headrace.sinks.web.web_options import Guard, WebOptions
from sinks.web.faked_run import ANY_PORT, DOOR, faked_run, fetch, source, status


def test_loopback_addresses_are_local_and_the_token_is_not_in_the_repr():
    addresses = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::")
    local = [WebOptions(address=address).is_local for address in addresses]
    assert local == [True, True, True, False, False]
    assert "a-token-of-a-test" not in repr(WebOptions(token="a-token-of-a-test-0123"))


def test_a_missing_extra_is_named_in_the_error(monkeypatch):
    with open_web_view(ANY_PORT, status, [DOOR]) as view:
        assert view.port > 0
    for name in [name for name in sys.modules if name.startswith("headrace.sinks.web.web_sink")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "headrace.runtime.asgi_server", None)
    with pytest.raises(BackendError, match=r"pip install 'headrace\[web\]'"):
        open_web_view(ANY_PORT, status, [DOOR])


STARTING = {"seconds_since_last_result": None, "running_seconds": 9.0}
DOWN = source("b", state="reconnecting", since_seconds=41)


HEALTH = (
    *({}, {"seconds_since_last_result": 10.0}, {"seconds_since_last_result": 10.5}),
    *(STARTING, STARTING | {"running_seconds": 30.0}, {"state": "ended"}),
    {"sources": (source("a"), DOWN)},
    {"sources": (source("a"), source("b", state="ended"))},
)


def test_a_run_is_unhealthy_without_results_for_too_long(holds):
    results = [health(status(**changes), 10) for changes in HEALTH]
    holds("health.txt", "".join(f"{h.is_good}: {h.words}\n" for h in results))


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return (name, label values in order of their names) → value, parsed by Prometheus."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_metrics_are_in_seconds_and_ratios(holds):
    with faked_run() as run:
        reply = fetch(run, "/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE
    metrics = sorted(samples(reply.text).items())
    holds("metrics.txt", "".join(f"{' '.join(names)}: {value}\n" for names, value in metrics))


def test_unknown_metrics_are_absent_and_source_names_are_escaped():
    name = 'a "b"\\\n# HELP'
    unknown = {"seconds_since_last_result": None, "latency": None, "jitter_ms": None}
    metrics = samples(metrics_text(status(sources=(source(name),), **unknown)).decode())
    absent = {
        "headrace_seconds_since_last_result",
        "headrace_latency_seconds",
        "headrace_latency_jitter_seconds",
    }
    assert not absent & {key[0] for key in metrics}
    assert ("headrace_stage_seconds", "0.95", "sink") not in metrics, "n too small"
    assert metrics["headrace_source_fps", name] == 30


TOKEN = "a-token-of-a-test-0123"
LOCAL = Guard(is_local=True, hosts=frozenset({"cam.example"}), token=None)
OPEN = Guard(is_local=False, hosts=frozenset({"box"}), token=TOKEN)


def denial(guard: Guard, **request) -> int | None:
    """Return the HTTP status of a denied request; None: allowed."""
    defaults = {"method": "GET", "headers": {"host": "localhost"}}
    result = guard.check(**{**defaults, **request})
    return None if result is None else result[0]


HOSTS = {
    # Through a tunnel, localhost has another port.
    (None, None): ("localhost", "localhost:9000", "LOCALHOST:8686", "127.0.0.1:8686", "[::1]:8686"),
    (None, 403): ("cam.example",),
    (403, None): ("box:8686", "10.0.0.7:8686"),
    (403, 403): (
        *("evil.example:8686", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", ""),
        *("evil.example#localhost", "evil.example/localhost", "localhost@evil.example"),
    ),
}
"""(status of a local page, status of a public page) → host names."""


def test_only_known_host_names_are_served():
    for statuses, hosts in HOSTS.items():
        for headers in ({"host": host} for host in hosts):
            local = denial(LOCAL, headers=headers)
            public = denial(OPEN, headers=headers, query_token=TOKEN)
            assert (local, public) == statuses, headers


def test_pages_of_other_sites_have_no_access():
    allowed = ({"origin": "http://localhost:8686"}, {"origin": "https://localhost:8686"})
    allowed += ({"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"})
    allowed += ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},)
    origins = ("http://localhost:8687", "http://evil.example", "null", "")
    others = (*({"origin": origin} for origin in origins), {"sec-fetch-site": "cross-site"})
    others += ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},)
    for expected, cases in ((None, allowed), (403, others)):
        for headers in ({"host": "localhost:8686", **case} for case in cases):
            assert denial(LOCAL, headers=headers) == expected, headers


def test_only_reading_methods_are_allowed():
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get"):
        assert denial(LOCAL, method=method) == 405, method
    assert denial(LOCAL, method="HEAD") is None


def authorized(value):
    return {"headers": {"host": "box", "authorization": value}}


RIGHT = (
    *({"query_token": TOKEN}, {"cookie_token": TOKEN}),
    {"cookie_token": "of an earlier run", "query_token": TOKEN},
    *(authorized(f"Bearer {TOKEN}"), authorized(f"bearer  {TOKEN}")),
)
WRONG = (
    *({}, {"query_token": ""}, {"query_token": f"{TOKEN}x"}, {"query_token": "ü"}),
    *(authorized(f"Basic {TOKEN}"), authorized("Bearer")),
)


def test_a_public_page_requires_the_token():
    assert [denial(OPEN, **request) for request in RIGHT] == [None] * len(RIGHT)
    assert [denial(OPEN, **request) for request in WRONG] == [401] * len(WRONG)
