"""The web page over real HTTP: access, paths, and slow clients."""

import asyncio
import io
import json
import re
import socket
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from headrace.errors import ConfigError
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.sinks import painting
from headrace.sinks.painting import mosaic
from headrace.sinks.web.status import LiveStatus
from headrace.sinks.web.web_options import WebOptions
from headrace.sinks.web.web_sink import LiveImage, interval_seconds
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import Call, in_time
from sinks.made import DOG, frames_with_boxes, labelled_frames
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


class FakeLiveImage(LiveImage):
    """Live image of one source, with a fake clock."""

    def __init__(self, rate=15.0):
        self.clock = FakeClock(now_ns=1_000_000_000)
        super().__init__(("door",), self.clock, rate)

    def show_grey(self, height=36, width=64):
        results = labelled_frames(7, 1)
        batch = replace(results.batch, frames=np.full((1, height, width, 3), 96, np.uint8))
        self.show(replace(results, batch=batch))
        return batch.frames

    def fetch(self, *numbers):
        """Return an image newer than each number, one after another."""

        async def fetch():
            return [await self.next(number, 30.0) for number in numbers]

        return asyncio.run(fetch())


@pytest.fixture
def tile_counts(monkeypatch) -> list[int]:
    """Return the list of the tile counts of all encoded images."""
    counts: list[int] = []

    def count_tiles(tiles):
        counts.append(len(tiles))
        return mosaic(tiles)

    monkeypatch.setattr(painting, "mosaic", count_tiles)
    return counts


def test_many_browsers_receive_fewer_images_each():
    intervals = [interval_seconds(viewers, 15) for viewers in (1, 10, 15, 50, 300)]
    assert intervals == [1 / 15, 1 / 15, 0.1, 1 / 3, 2]


def test_nothing_is_encoded_without_a_browser(tile_counts):
    live_image = FakeLiveImage()
    for _ in range(10):
        live_image.show_grey()
    assert tile_counts == []


def test_an_image_for_fifty_browsers_is_encoded_once(tile_counts):
    async def fetch():
        live_image = FakeLiveImage()
        tasks = [asyncio.create_task(live_image.next(0, 30.0)) for _ in range(50)]
        await asyncio.sleep(0)
        live_image.show_grey()
        return await asyncio.gather(*tasks)

    assert [image.number for image in asyncio.run(fetch())] == [1] * 50
    assert tile_counts == [1]


def test_a_slow_browser_receives_the_latest_image(tile_counts):
    live_image = FakeLiveImage(1e6)
    for _ in range(5):
        live_image.show_grey()
    [first] = live_image.fetch(0)
    live_image.clock.advance(1)
    live_image.show_grey(18, 32)
    [second] = live_image.fetch(first.number)
    assert (first.number, second.number, len(tile_counts)) == (5, 6, 2)
    with Image.open(io.BytesIO(second.jpeg)) as image:
        assert image.size == (32, 18)


def test_a_recent_image_is_reused_for_a_later_browser(tile_counts):
    live_image = FakeLiveImage(1e9)
    live_image.show_grey()
    first, second = live_image.fetch(0, 0)
    assert first is second
    assert tile_counts == [1]


def test_a_number_of_an_earlier_run_gives_the_latest_image_of_a_copied_frame():
    """The memory of a batch is reused after `show`."""
    live_image = FakeLiveImage()
    live_image.show_grey()[:] = 255
    [jpeg] = live_image.fetch(5000)
    assert jpeg.number == 1
    with Image.open(io.BytesIO(jpeg.jpeg)) as image:
        assert abs(image.convert("L").getpixel((32, 30)) - 96) <= 2


def test_boxes_are_drawn_on_the_live_image():
    live_image = FakeLiveImage()
    live_image.show(frames_with_boxes(7, 1))
    [image] = live_image.fetch(0)
    pixels = np.asarray(Image.open(io.BytesIO(image.jpeg)))
    left, top, right, bottom = map(round, DOG)
    assert pixels[bottom, left : right + 1].max(axis=1).min() > 60
    assert pixels[(top + bottom) // 2, right + 4 :].max() < 30


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
