"""A cache gives what was put, and nothing its store does reaches who uses it."""

import numpy as np
import pytest

from cache.broken_store import BrokenStore
from cache.made import arrays, key, same
from headrace.cache.cache import Cache
from headrace.cache.counters import CacheCounters
from headrace.cache.rest import FAILURES, REST_SECONDS
from headrace.errors import ConfigError
from headrace.testing.fake_clock import FakeClock

KEYS = [key(k) for k in range(4)]


@pytest.fixture
def store():
    return BrokenStore()


def test_what_was_put_is_found_and_counted(store):
    with Cache(store) as cache:
        cache.put({KEYS[0]: arrays(0), KEYS[1]: arrays(1)})
        found = cache.get(KEYS[1:])
    assert list(found) == [KEYS[1]]
    assert same(found[KEYS[1]], arrays(1))
    size = len(store.entries[KEYS[1].digest])
    assert cache.counters == CacheCounters(
        hits=1, misses=2, stored=2, read_bytes=size, written_bytes=2 * size
    )
    assert cache.warnings == []
    assert store.asked[-1] == "close"


def test_no_cache_misses_everything_and_keeps_nothing():
    with Cache(None) as cache:
        cache.put({KEYS[0]: arrays()})
        assert cache.get(KEYS) == {}
    assert (cache.is_none, cache.where) == (True, "none")
    assert cache.counters == CacheCounters(misses=4)
    assert cache.warnings == []


@pytest.mark.parametrize("fault", ["open", "get", "put"])
def test_a_store_that_fails_gives_misses_and_one_warning(store, fault):
    said = []
    store.broken = {fault}
    with Cache(store, on_warning=said.append, clock=FakeClock()) as cache:
        for k in range(20):
            assert cache.get([KEYS[0]]) == {} or fault == "put"
            cache.put({KEYS[1]: arrays(k)})
    assert cache.counters.hits == 0
    assert cache.counters.misses == 20
    assert cache.counters.stored == (20 if fault == "get" else 0)
    assert cache.counters.stored + cache.counters.unstored == 20
    assert said == cache.warnings
    assert len(said) == 1
    assert f"broken://store cannot {fault}" in said[0]


def test_a_store_that_fails_is_left_alone_and_tried_again_later(store):
    clock = FakeClock()
    cache = Cache(store, clock=clock)
    store.broken = {"get"}
    for _ in range(10):
        cache.get(KEYS)
    assert store.asked.count("get") == FAILURES == cache.counters.errors
    clock.advance(REST_SECONDS)
    cache.get(KEYS)
    cache.get(KEYS)
    assert store.asked.count("get") == FAILURES + 1
    clock.advance(REST_SECONDS)
    store.broken = set()
    cache.put({KEYS[0]: arrays()})
    assert list(cache.get(KEYS)) == [KEYS[0]]
    assert list(cache.get(KEYS)) == [KEYS[0]]


def test_a_failure_now_and_then_does_not_stop_asking(store):
    cache = Cache(store, clock=FakeClock())
    for k in range(10):
        store.broken = {"get"} if k % 2 else set()
        cache.get(KEYS)
    assert store.asked.count("get") == 10


def test_a_store_that_cannot_write_is_still_read(store):
    cache = Cache(store, clock=FakeClock())
    cache.put({KEYS[0]: arrays()})
    store.broken = {"put"}
    for _ in range(10):
        cache.put({KEYS[1]: arrays(1)})
    assert list(cache.get(KEYS)) == [KEYS[0]]
    assert store.asked.count("put") == 1 + FAILURES


def test_a_damaged_entry_is_a_miss_and_is_replaced(store):
    cache = Cache(store)
    cache.put({KEYS[0]: arrays(), KEYS[1]: arrays(1)})
    for each in KEYS[:2]:
        store.entries[each.digest] = store.entries[each.digest][:-1] + b"x"
    store.entries[KEYS[2].digest] = store.entries[KEYS[3].digest] = b""
    assert cache.get(KEYS) == {}
    assert (cache.counters.damaged, cache.counters.misses) == (4, 4)
    assert len(cache.warnings) == 1
    assert "headrace cache verify" in cache.warnings[0]
    cache.put({KEYS[0]: arrays()})
    assert same(cache.get(KEYS[:1])[KEYS[0]], arrays())


def test_a_result_that_is_too_large_is_counted_and_the_others_are_kept(store):
    store.max_entry_bytes = 4096
    cache = Cache(store)
    cache.put({KEYS[0]: arrays(width=1000), KEYS[1]: arrays()})
    assert list(cache.get(KEYS)) == [KEYS[1]]
    assert (cache.counters.too_large, cache.counters.unstored, cache.counters.stored) == (1, 1, 1)
    assert "fewer frames" in cache.warnings[0]


def test_how_a_store_is_set_up_is_warned_of_in_one_line(store):
    store.notes = ["has no maxmemory", "saves"]
    assert Cache(store).warnings == ["the cache broken://store: has no maxmemory; saves"]


def test_a_store_that_comes_up_later_is_reached_then(store):
    store.broken = {"open"}
    cache = Cache(store, clock=FakeClock())
    store.broken = set()
    cache.put({KEYS[0]: arrays()})
    assert list(cache.get(KEYS)) == [KEYS[0]]


def test_what_cannot_be_kept_is_told_at_once(store):
    with pytest.raises(ConfigError, match="must hold numbers"):
        Cache(store).put({KEYS[0]: {"a": np.array(["text"])}})


def test_nothing_is_asked_for_nothing(store):
    cache = Cache(store)
    cache.put({})
    assert cache.get([]) == {}
    assert store.asked == ["open"]
