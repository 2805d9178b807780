"""A clock that a test moves, and a real server that reports when it starts to play."""

import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns

import pytest

from headrace.testing.fake_clock import FakeClock
from headrace.testing.rtsp import RtspServer
from headrace.testing.synth import SynthClip, write_clip
from live.reading import Read
from live.rtsp import needs_server
from runtime.in_time import in_time


def test_time_stands_still_until_advanced():
    clock = FakeClock(now_ns=5, wall_seconds=100.0)
    assert (clock.now_ns(), clock.now_ns(), clock.wall_seconds()) == (5, 5, 100.0)
    clock.advance(1.5)
    assert (clock.now_ns(), clock.wall_seconds()) == (1_500_000_005, 101.5)


def test_advance_refuses_negative_seconds():
    with pytest.raises(ValueError, match=r"must be >= 0, got -0\.1"):
        FakeClock().advance(-0.1)


def test_a_wait_moves_the_clock():
    clock, condition = FakeClock(now_ns=5), threading.Condition()
    with condition:
        clock.wait_until(condition, 9)
        clock.wait_until(condition, 7)
    assert clock.now_ns() == 9


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip", SynthClip(num_frames=60, gop=15))


@pytest.fixture
def server(clip: Path) -> Iterator[RtspServer]:
    needs_server()
    server = RtspServer()
    server.start(clip)
    yield server
    server.kill()


def test_the_server_prints_the_moment_of_pts_0_per_client(server):
    moments = [perf_counter_ns()]
    for _ in range(2):
        in_time(lambda: Read(server.url()).take(1))
        moments += [in_time(server.next_client_ns), perf_counter_ns()]
    assert moments == sorted(moments)


def test_a_restarted_server_keeps_its_port(server, clip):
    before = server.url()
    server.kill()
    server.start(clip)
    assert server.url() == before


def test_a_server_killed_before_a_client_raises(server):
    server.stop()
    server.go_on()
    process = server._process
    assert process is not None
    process.kill()
    with pytest.raises(ValueError, match="invalid literal"):
        in_time(server.next_client_ns)
