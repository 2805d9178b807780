"""A run is served over real HTTP: to who may ask, each path and no other, and nobody holds it."""

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
    ask,
    connected,
    faked_run,
    seen,
    source,
    status,
)

TOKEN = "a-token-of-a-test-0123"


def test_it_tells_what_the_run_says_and_asks_the_run_once_for_everybody():
    with faked_run() as run:
        told = [ask(run, "/status.json") for _ in range(5)]
        assert run.asked == 1
        assert {LiveStatus.model_validate_json(reply.body) for reply in told} == {status()}
        run.say(status(fps=0))
        assert json.loads(ask(run, "/status.json").body)["fps"] == 0
        assert run.asked == 2


def test_a_run_turns_unhealthy_when_results_stop():
    with faked_run() as run:
        good = ask(run, "/health")
        told = {"is_good": True, "words": "results arrive"}
        assert (good.status, json.loads(good.body)) == (200, told)
        down = source(state="stalled", since_seconds=11)
        run.say(status(seconds_since_last_result=11, sources=(down,)))
        bad = ask(run, "/health")
        words = f"no result for 11 s, more than 10 s; {DOOR} is stalled for 11 s"
        assert (bad.status, json.loads(bad.body)) == (503, {"is_good": False, "words": words})


def test_there_is_nothing_but_what_is_served():
    paths = ("/page", "/page/", "/page/page.js", "/page.html", "/../pyproject.toml", "//")
    with faked_run() as run:
        found = {path: ask(run, path).status for path in (*paths, "/%2e%2e/app.py", "/")}
    assert [path for path, status in found.items() if status != 404] == ["/"]


def test_every_answer_keeps_the_browser_from_sharing_it():
    policy = "default-src 'none'; script-src 'self';"
    expected = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
    }
    with faked_run() as run:
        for path in ("/", "/status.json", "/nothing", "/health"):
            headers = ask(run, path).headers
            assert headers["content-security-policy"].startswith(policy), path
            assert headers.items() >= expected.items(), path
            assert "server" not in headers, path


def test_what_the_guard_refuses_is_not_answered():
    with faked_run() as run:
        post = ask(run, "/status.json", method="POST")
        assert (post.status, post.headers["allow"]) == (405, "GET, HEAD")
        assert ask(run, "/status.json", host="evil.example").status == 403
        assert ask(run, "/status.json", origin="http://evil.example").status == 403
        assert run.asked == 0


def test_a_token_goes_from_the_address_into_a_cookie():
    with faked_run(address="0.0.0.0", token=TOKEN) as run:
        assert run.view.url.endswith(f":{run.view.port}/"), "a token of one's own is not shown"
        none = ask(run, "/")
        assert (none.status, none.headers["www-authenticate"]) == (401, "Bearer")
        assert ask(run, "/?token=a-token-of-a-test-0124").status == 401
        first = ask(run, f"/?token={TOKEN}")
        assert (first.status, first.headers["location"]) == (303, "./")
        cookie = first.headers["set-cookie"]
        assert cookie == f"headrace-{run.view.port}={TOKEN}; HttpOnly; Path=/; SameSite=lax"
        assert ask(run, "/", cookie=cookie.partition(";")[0]).status == 200
        for path in ("/status.json", "/metrics", "/health"):
            assert ask(run, path).status == 401
            assert ask(run, path, authorization=f"Bearer {TOKEN}").status == 200


def test_a_token_is_asked_for_on_this_machine_too_and_a_name_may_be_added():
    """Behind a proxy everybody comes from this machine."""
    with faked_run(token=TOKEN) as run:
        assert ask(run, "/health").status == 401
        assert ask(run, "/health", authorization=f"Bearer {TOKEN}").status == 200
    with faked_run(hosts=("Cam.Example",)) as run:
        assert ask(run, "/health", host="cam.example:443").status == 200
        assert ask(run, "/health", host="other.example").status == 403


def test_each_run_makes_a_token_of_its_own():
    with faked_run(address="0.0.0.0") as run, faked_run(address="0.0.0.0") as other:
        tokens = {each.view.url.partition("?token=")[2] for each in (run, other)}
    assert len(tokens) == 2
    assert all(re.fullmatch(r"[\w-]{22}", token) for token in tokens)
    with faked_run() as run:
        assert run.view.url == f"{run.root}/"


def test_pictures_come_one_after_the_other_and_wait_for_a_newer_one():
    with faked_run() as run:
        waiting = Call(lambda: ask(run, "/picture.jpg?after=0"))
        run.view.write(seen(1))
        first = waiting.result()
        assert (first.status, first.headers["picture-number"]) == (200, "1")
        assert first.body[:2] == b"\xff\xd8"
        waiting = Call(lambda: ask(run, "/picture.jpg?after=1"))
        run.view.write(seen(2))
        assert waiting.result().headers["picture-number"] == "2"
        assert ask(run, "/picture.jpg?after=x").status == 400


def test_without_a_page_there_are_figures_only():
    with faked_run(with_page=False) as run:
        run.view.write(seen(1))
        statuses = {path: ask(run, path).status for path in ("/", "/picture.jpg")}
        assert statuses == {"/": 404, "/picture.jpg": 404}
        assert (ask(run, "/metrics").status, ask(run, "/health").status) == (200, 200)
        assert run.view.url == f"{run.root}/metrics"


def test_a_port_in_use_says_what_to_do():
    with faked_run() as run, pytest.raises(ConfigError) as caught:
        FakedRun(WebOptions(port=run.view.port), (DOOR,))
    assert str(caught.value) == (
        f"cannot serve on 127.0.0.1 port {run.view.port}: address already in use; give another "
        "port (--web-port), or 0 for any that is free, and an address of this machine"
    )


def test_browsers_that_stop_reading_hold_nobody():
    """They ask for many pictures and read none; another one, the run and the end are not held."""

    def run_it():
        with faked_run() as run:
            sink = SinkSpec(name="web", function=run.view.write, capacity=1, overflow="drop_oldest")
            with FanOut([sink]) as fan:
                fan.put(seen(0, size=(720, 1280)))
                ask(run, "/picture.jpg")
                greedy = [connected(run, buffer=4096) for _ in range(20)]
                for each in greedy:
                    each.sendall(b"GET /picture.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
                for number in range(1, 50):
                    fan.put(seen(number))
                picture = ask(run, "/picture.jpg")
                assert picture.status == 200
                assert ask(run, "/status.json").status == 200
        for each in greedy:
            each.close()
        return fan.failures()

    assert in_time(run_it) == {}


def test_the_end_cuts_who_waits_for_a_picture():
    def run_it():
        with faked_run() as run:
            waiting = connected(run)
            waiting.sendall(b"GET /picture.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n")
            ask(run, "/health")  # the server is at work
        with waiting, suppress(ConnectionResetError):
            while waiting.recv(1024):
                pass
        return "over"

    assert in_time(run_it) == "over"


def test_a_run_that_cannot_say_how_it_is_answers_so_and_the_server_goes_on():
    with faked_run() as run:
        run.status = None
        assert ask(run, "/status.json").status == 500
        run.say(status())
        assert ask(run, "/status.json").status == 200


def test_a_view_that_was_never_served_leaves_no_port_open():
    run = FakedRun(ANY_PORT, (DOOR,))
    run.view.close()
    with socket.create_server(("127.0.0.1", run.view.port)):
        pass
