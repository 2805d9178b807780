"""The web page over real HTTP: access, paths, and slow clients."""

import json
import re
import socket
from contextlib import suppress

import pytest

from headrace.errors import ConfigError
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.sinks.web.status import LiveStatus
from headrace.sinks.web.web_options import WebOptions
from runtime.in_time import Call, in_time
from sinks.web.faked_run import (
    ANY_PORT,
    DOOR,
    FakedRun,
    connected,
    faked_run,
    fetch,
    labelled_frame,
    source,
    status,
)

TOKEN = "a-token-of-a-test-0123"


def test_the_status_is_read_once_for_all_clients():
    with faked_run() as run:
        replies = [fetch(run, "/status.json") for _ in range(5)]
        assert run.status_reads == 1
        assert {LiveStatus.model_validate_json(reply.body) for reply in replies} == {status()}
        run.set_status(status(fps=0))
        assert json.loads(fetch(run, "/status.json").body)["fps"] == 0
        assert run.status_reads == 2


def test_a_run_turns_unhealthy_when_results_stop():
    with faked_run() as run:
        good = fetch(run, "/health")
        healthy = {"is_good": True, "words": "results arrive"}
        assert (good.status, json.loads(good.body)) == (200, healthy)
        down = source(state="stalled", since_seconds=11)
        run.set_status(status(seconds_since_last_result=11, sources=(down,)))
        bad = fetch(run, "/health")
        words = f"no result for 11 s, more than 10 s; {DOOR} is stalled for 11 s"
        assert (bad.status, json.loads(bad.body)) == (503, {"is_good": False, "words": words})


def test_unknown_paths_are_not_served():
    paths = ("/page", "/page/", "/page/page.js", "/page.html", "/../pyproject.toml", "//")
    with faked_run() as run:
        statuses = {path: fetch(run, path).status for path in (*paths, "/%2e%2e/app.py", "/")}
    assert [path for path, status in statuses.items() if status != 404] == ["/"]


def test_every_response_has_security_headers():
    policy = "default-src 'none'; script-src 'self';"
    expected = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
    }
    with faked_run() as run:
        for path in ("/", "/status.json", "/nothing", "/health"):
            headers = fetch(run, path).headers
            assert headers["content-security-policy"].startswith(policy), path
            assert headers.items() >= expected.items(), path
            assert "server" not in headers, path


def test_a_denied_request_does_not_reach_the_run():
    with faked_run() as run:
        post = fetch(run, "/status.json", method="POST")
        assert (post.status, post.headers["allow"]) == (405, "GET, HEAD")
        assert fetch(run, "/status.json", host="evil.example").status == 403
        assert fetch(run, "/status.json", origin="http://evil.example").status == 403
        assert run.status_reads == 0


def test_a_token_in_the_url_is_stored_in_a_cookie():
    with faked_run(address="0.0.0.0", token=TOKEN) as run:
        assert run.view.url.endswith(f":{run.view.port}/"), "the user's token is not shown"
        denied = fetch(run, "/")
        assert (denied.status, denied.headers["www-authenticate"]) == (401, "Bearer")
        assert fetch(run, "/?token=a-token-of-a-test-0124").status == 401
        redirect = fetch(run, f"/?token={TOKEN}")
        assert (redirect.status, redirect.headers["location"]) == (303, "./")
        cookie = redirect.headers["set-cookie"]
        assert cookie == f"headrace-{run.view.port}={TOKEN}; HttpOnly; Path=/; SameSite=lax"
        assert fetch(run, "/", cookie=cookie.partition(";")[0]).status == 200
        for path in ("/status.json", "/metrics", "/health"):
            assert fetch(run, path).status == 401
            assert fetch(run, path, authorization=f"Bearer {TOKEN}").status == 200


def test_a_local_page_can_require_a_token_and_have_additional_names():
    """Behind a proxy, all requests come from this machine."""
    with faked_run(token=TOKEN) as run:
        assert fetch(run, "/health").status == 401
        assert fetch(run, "/health", authorization=f"Bearer {TOKEN}").status == 200
    with faked_run(hosts=("Cam.Example",)) as run:
        assert fetch(run, "/health", host="cam.example:443").status == 200
        assert fetch(run, "/health", host="other.example").status == 403


def test_each_run_generates_its_own_token():
    with faked_run(address="0.0.0.0") as run, faked_run(address="0.0.0.0") as other:
        tokens = {page.view.url.partition("?token=")[2] for page in (run, other)}
    assert len(tokens) == 2
    assert all(re.fullmatch(r"[\w-]{22}", token) for token in tokens)
    with faked_run() as run:
        assert run.view.url == f"{run.root}/"


def test_a_request_for_an_image_waits_for_a_newer_one():
    with faked_run() as run:
        waiting = Call(lambda: fetch(run, "/picture.jpg?after=0"))
        run.view.write(labelled_frame(1))
        first = waiting.result()
        assert (first.status, first.headers["picture-number"]) == (200, "1")
        assert first.body[:2] == b"\xff\xd8"
        waiting = Call(lambda: fetch(run, "/picture.jpg?after=1"))
        run.view.write(labelled_frame(2))
        assert waiting.result().headers["picture-number"] == "2"
        assert fetch(run, "/picture.jpg?after=x").status == 400


def test_without_a_page_only_metrics_and_health_are_served():
    with faked_run(with_page=False) as run:
        run.view.write(labelled_frame(1))
        statuses = {path: fetch(run, path).status for path in ("/", "/picture.jpg")}
        assert statuses == {"/": 404, "/picture.jpg": 404}
        assert (fetch(run, "/metrics").status, fetch(run, "/health").status) == (200, 200)
        assert run.view.url == f"{run.root}/metrics"


def test_the_error_of_a_port_in_use_has_advice():
    with faked_run() as run, pytest.raises(ConfigError) as caught:
        FakedRun(WebOptions(port=run.view.port), (DOOR,))
    assert str(caught.value) == (
        f"cannot serve on 127.0.0.1 port {run.view.port}: address already in use; give another "
        "port (--web-port), or 0 for any free one, and an address of this machine"
    )


def test_browsers_that_stop_reading_block_nothing():
    """They request many images and read none; other browsers, the run and `close` continue."""

    def run_it():
        with faked_run() as run:
            sink = SinkSpec(name="web", function=run.view.write, capacity=1, overflow="drop_oldest")
            with FanOut([sink]) as fan:
                fan.put(labelled_frame(0, size=(720, 1280)))
                fetch(run, "/picture.jpg")
                blocked = [connected(run, buffer=4096) for _ in range(20)]
                for connection in blocked:
                    connection.sendall(
                        b"GET /picture.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
                    )
                for number in range(1, 50):
                    fan.put(labelled_frame(number))
                assert fetch(run, "/picture.jpg").status == 200
                assert fetch(run, "/status.json").status == 200
        for connection in blocked:
            connection.close()
        return fan.failures()

    assert in_time(run_it) == {}


def test_closing_ends_requests_that_wait_for_an_image():
    def run_it():
        with faked_run() as run:
            waiting = connected(run)
            waiting.sendall(b"GET /picture.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
            fetch(run, "/health")  # the server has started
        with waiting, suppress(ConnectionResetError):
            while waiting.recv(1024):
                pass
        return "closed"

    assert in_time(run_it) == "closed"


def test_a_failing_status_is_an_error_500_and_the_server_continues():
    with faked_run() as run:
        run.status = None
        assert fetch(run, "/status.json").status == 500
        run.set_status(status())
        assert fetch(run, "/status.json").status == 200


def test_closing_an_unstarted_page_closes_its_port():
    run = FakedRun(ANY_PORT, (DOOR,))
    run.view.close()
    with socket.create_server(("127.0.0.1", run.view.port)):
        pass
