"""Where a run may be shown and to whom, what a program reads of it, and the door to an extra."""

import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.errors import BackendError
from headrace.sinks.web.access_control import Guard, RequestInfo
from headrace.sinks.web.open_page import open_web_view
from headrace.sinks.web.prometheus import CONTENT_TYPE, metrics_text
from headrace.sinks.web.status import health
from headrace.sinks.web.web_options import WebOptions
from sinks.web.faked_run import ANY_PORT, DOOR, ask, faked_run, source, status


def test_this_machine_alone_needs_no_token_and_it_is_in_no_text():
    addresses = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::")
    local = [WebOptions(address=address).is_local for address in addresses]
    assert local == [True, True, True, False, False]
    assert "a-token-of-a-test" not in repr(WebOptions(token="a-token-of-a-test-0123"))


def test_the_port_is_opened_where_the_extra_is_and_the_extra_is_named_where_not(monkeypatch):
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


def test_a_run_is_unhealthy_when_no_result_comes_for_too_long(holds):
    found = [health(status(**changes), 10) for changes in HEALTH]
    holds("health.txt", "".join(f"{h.is_good}: {h.words}\n" for h in found))


def samples(text: str) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of their names) -> value, as Prometheus reads them."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_figure_is_there_in_seconds_and_shares(holds):
    with faked_run() as run:
        reply = ask(run, "/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE
    found = sorted(samples(reply.text).items())
    holds("metrics.txt", "".join(f"{' '.join(names)}: {value}\n" for names, value in found))


def test_what_is_not_known_is_absent_and_a_source_may_be_called_anything():
    name = 'a "b"\\\n# HELP'
    unknown = {"seconds_since_last_result": None, "latency": None, "jitter_ms": None}
    found = samples(metrics_text(status(sources=(source(name),), **unknown)).decode())
    absent = {
        "headrace_seconds_since_last_result",
        "headrace_latency_seconds",
        "headrace_latency_jitter_seconds",
    }
    assert not absent & {key[0] for key in found}
    assert ("headrace_stage_seconds", "0.95", "sink") not in found, "n too small"
    assert found["headrace_source_fps", name] == 30


TOKEN = "a-token-of-a-test-0123"
LOCAL = Guard(is_local=True, hosts=frozenset({"cam.example"}), token=None)
OPEN = Guard(is_local=False, hosts=frozenset({"box"}), token=TOKEN)


def refused(guard: Guard, **asking) -> int | None:
    """The status a request is refused with; None where it is let through."""
    plain = {"method": "GET", "headers": {"host": "localhost"}}
    found = guard.check(RequestInfo(**{**plain, **asking}))
    return None if found is None else found.status


HOSTS = {
    # Through a tunnel, the port of localhost is another one.
    (None, None): ("localhost", "localhost:9000", "LOCALHOST:8686", "127.0.0.1:8686", "[::1]:8686"),
    (None, 403): ("cam.example",),
    (403, None): ("box:8686", "10.0.0.7:8686"),
    (403, 403): (
        *("evil.example:8686", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", ""),
        *("evil.example#localhost", "evil.example/localhost", "localhost@evil.example"),
    ),
}
"""Statuses for this machine and for others -> names of hosts."""


def test_only_names_that_are_ours_are_served():
    for statuses, hosts in HOSTS.items():
        for headers in ({"host": host} for host in hosts):
            found = refused(LOCAL, headers=headers)
            other = refused(OPEN, headers=headers, query_token=TOKEN)
            assert (found, other) == statuses, headers


def test_pages_of_other_sites_get_nothing():
    allowed = ({"origin": "http://localhost:8686"}, {"origin": "https://localhost:8686"})
    allowed += ({"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"})
    allowed += ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},)
    origins = ("http://localhost:8687", "http://evil.example", "null", "")
    others = (*({"origin": origin} for origin in origins), {"sec-fetch-site": "cross-site"})
    others += ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},)
    for expected, asked in ((None, allowed), (403, others)):
        for headers in ({"host": "localhost:8686", **each} for each in asked):
            assert refused(LOCAL, headers=headers) == expected, headers


def test_nothing_but_reading_is_allowed():
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get"):
        assert refused(LOCAL, method=method) == 405, method
    assert refused(LOCAL, method="HEAD") is None


def authorized(words):
    return {"headers": {"host": "box", "authorization": words}}


RIGHT = (
    *({"query_token": TOKEN}, {"cookie_token": TOKEN}),
    {"cookie_token": "of an earlier run", "query_token": TOKEN},
    *(authorized(f"Bearer {TOKEN}"), authorized(f"bearer  {TOKEN}")),
)
WRONG = (
    *({}, {"query_token": ""}, {"query_token": f"{TOKEN}x"}, {"query_token": "ü"}),
    *(authorized(f"Basic {TOKEN}"), authorized("Bearer")),
)


def test_others_than_this_machine_show_the_token():
    assert [refused(OPEN, **asking) for asking in RIGHT] == [None] * len(RIGHT)
    assert [refused(OPEN, **asking) for asking in WRONG] == [401] * len(WRONG)
