"""A thread's time: running, or waiting for a core."""

import os
import sys
import threading
import time

import pytest

from headrace.runtime.clock import EndedThreads, ThreadMeter

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the wait for a core")


def work(cpu_seconds: float) -> None:
    end = time.thread_time() + cpu_seconds
    while time.thread_time() < end:
        sum(range(100))


def test_thread_times_count_work_only() -> None:
    meter = ThreadMeter()
    work(0.02)
    times = meter.take()
    assert times is not None
    assert 20e6 <= times.cpu_ns < 1e9
    other = threading.Thread(target=work, args=(0.05,))
    other.start()
    meter.take()
    other.join()
    waited = meter.take()
    assert waited is not None
    assert waited.cpu_ns < 50e6


def test_thread_times_are_not_mixed() -> None:
    meter = ThreadMeter()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(meter.take()))
    thread.start()
    thread.join()
    assert found == [None]
    assert meter.take() is None
    assert meter.take() is not None


def test_times_of_ended_threads_are_summed() -> None:
    ended = EndedThreads(2)
    assert ended.seconds() == {"cpu_seconds": None, "core_wait_seconds": None}
    with ended.measured():
        work(0.01)
    assert ended.seconds()["cpu_seconds"] is None
    with ended.measured():
        work(0.01)
    cpu_seconds = ended.seconds()["cpu_seconds"]
    assert cpu_seconds is not None
    assert cpu_seconds >= 0.02


@LINUX
def test_two_processes_on_one_core_wait_half_of_the_time() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        rival = os.fork()
        if not rival:
            work(0.3)
            os._exit(0)
        meter = ThreadMeter()
        work(0.3)
        times = meter.take()
        os.waitpid(rival, 0)
    finally:
        os.sched_setaffinity(0, cores)
    assert times is not None
    assert times.core_wait_ns is not None
    assert times.core_wait_ns > 0.1e9


@LINUX
def test_the_core_wait_is_unknown_without_schedstat(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", missing)
    times = ThreadMeter().take()
    assert times is not None
    assert times.core_wait_ns is None
