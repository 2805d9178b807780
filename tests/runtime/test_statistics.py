"""Percentiles, queue lengths, flows, and the latest numbers."""

import math

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.distribution import Distribution, RingBuffer
from headrace.runtime.queue import WAIT_SAMPLES, QueueMeter

SECOND = 1_000_000_000


def test_occupancy_is_weighted_by_time():
    meter = QueueMeter("frames", capacity=4, now_ns=SECOND)
    meter.put()
    meter.advance(2 * SECOND)  # 1 s with 1 inside
    meter.put()
    meter.advance(3 * SECOND)  # 1 s with 2 inside
    meter.got(2 * SECOND)
    meter.got(1 * SECOND)
    meter.advance(5 * SECOND)  # 2 s with none
    statistics = meter.statistics()
    assert statistics.elapsed_seconds == 4.0
    assert statistics.mean_occupancy == 3 / (4 * 4)
    assert statistics.max_occupancy == 0.5
    assert (statistics.puts, statistics.gets) == (2, 2)
    assert statistics.wait_ms is not None
    assert (statistics.wait_ms.p50, statistics.wait_ms.maximum) == (1000.0, 2000.0)


def test_waits_add_up_over_waiting_threads():
    meter = QueueMeter("frames", capacity=1, now_ns=0)
    meter.waiting_consumers = 2
    meter.waiting_producers = 1
    meter.advance(3 * SECOND)
    meter.waiting_consumers = 0
    meter.advance(4 * SECOND)
    statistics = meter.statistics()
    assert (statistics.starved_seconds, statistics.blocked_seconds) == (6.0, 4.0)


def test_nothing_is_counted_after_stop():
    meter = QueueMeter("frames", capacity=1, now_ns=0)
    meter.waiting_consumers = 1
    meter.stop(SECOND)
    stopped = meter.statistics()
    meter.advance(9 * SECOND)
    assert meter.statistics() == stopped
    assert stopped.elapsed_seconds == stopped.starved_seconds == 1.0


def test_only_the_latest_waits_are_kept():
    meter = QueueMeter("frames", capacity=1, now_ns=0)
    for wait_ns in [7, *[5] * WAIT_SAMPLES]:
        meter.put()
        meter.got(wait_ns)
    statistics = meter.statistics()
    assert statistics.gets == WAIT_SAMPLES + 1
    assert statistics.wait_ms is not None
    assert (statistics.wait_ms.count, statistics.wait_ms.maximum) == (WAIT_SAMPLES, 5e-6)


def test_a_queue_that_was_not_used_has_zeros():
    statistics = QueueMeter("frames", capacity=3, now_ns=5).statistics()
    assert (statistics.name, statistics.capacity) == ("frames", 3)
    assert statistics.mean_occupancy == statistics.max_occupancy == 0.0
    assert statistics.wait_ms is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=1000))
def test_percentiles_are_nearest_rank(samples: list[float]) -> None:
    found = Distribution.of(samples)
    ranked = sorted(samples)
    for percent, value in ((50, found.p50), (90, found.p90), (95, found.p95), (99, found.p99)):
        if value is not None:
            assert value == ranked[math.ceil(percent * len(ranked) / 100) - 1]
    assert (found.minimum, found.maximum, found.count) == (ranked[0], ranked[-1], len(ranked))


def test_percentiles_need_enough_samples():
    found = {count: Distribution.of(range(count)) for count in (1, 89, 90, 458, 459)}
    assert [count for count in found if found[count].p95 is not None] == [90, 458, 459]
    assert [count for count in found if found[count].p99 is not None] == [459]


def test_std_is_of_the_samples() -> None:
    assert Distribution.of([]) is None
    found = Distribution.of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (found.mean, found.std) == (5.0, 2.0)


@given(st.lists(st.integers(-(2**53), 2**53)), st.integers(1, 9))
def test_the_ring_buffer_returns_the_last_numbers_in_order(numbers, most):
    kept = RingBuffer(most)
    for number in numbers:
        kept.append(number)
    assert kept.values().tolist() == numbers[-most:]
    assert len(kept) == min(len(numbers), most)
