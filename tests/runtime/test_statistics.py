from headrace.runtime.statistics import WAIT_SAMPLES, QueueMeter

SECOND = 1_000_000_000


def test_occupancy_is_weighted_with_time():
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


def test_waits_add_up_over_the_threads_that_wait():
    meter = QueueMeter("frames", capacity=1, now_ns=0)
    meter.waiting_consumers = 2
    meter.waiting_producers = 1
    meter.advance(3 * SECOND)
    meter.waiting_consumers = 0
    meter.advance(4 * SECOND)
    statistics = meter.statistics()
    assert (statistics.starved_seconds, statistics.blocked_seconds) == (6.0, 4.0)


def test_nothing_counts_after_the_stop():
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
