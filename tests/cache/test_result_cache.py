"""A cache returns stored results despite failures of its store; values of --cache; digests."""

import os

import pytest

from cache.made import MemoryStore, arrays, cached, results
from headrace import ConfigError, OpenError, Source
from headrace.cache import cache_url
from headrace.cache.cache_url import FILE, Cache, CacheCounters, open_cache, open_store, shown
from headrace.cache.content_digests import FILE as DIGESTS
from headrace.cache.content_digests import SETTLED_SECONDS, ContentDigests
from headrace.cache.maintenance import prune, verify
from headrace.cache.store import FAILURES, PAUSE_SECONDS
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.fake_clock import FakeClock

ALL = range(4)
KEYS = list(results(ALL))


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def clock():
    """Return a clock at which files of the test count as settled."""
    return FakeClock(wall_seconds=SYSTEM_CLOCK.wall_seconds() + 2 * SETTLED_SECONDS)


@pytest.fixture
def cache(store, clock):
    return Cache(store, clock=clock)


def test_stored_results_are_returned_and_counted(store):
    with Cache(store) as cache:
        cache.put(results(range(2)))
        assert cached(cache, range(1, 4)) == [1]
    size = len(store.entries[KEYS[1].digest])
    assert cache.counters == CacheCounters(
        hits=1, misses=2, stored=2, read_bytes=size, written_bytes=2 * size
    )
    assert (cache.warnings, store.calls[-1]) == ([], "close")


@pytest.mark.parametrize("open_none", [lambda: Cache(None), lambda: open_cache("none")])
def test_no_cache_misses_everything_and_stores_nothing(open_none):
    with open_none() as cache:
        cache.put({KEYS[0]: arrays()})
        assert cache.get(KEYS) == {}
    assert (cache.is_none, cache.where, cache.warnings) == (True, "none", [])
    assert cache.counters == CacheCounters(misses=4)


@pytest.mark.parametrize("fault", ["open", "get", "put"])
def test_a_failing_store_causes_misses_and_one_warning(store, fault):
    warnings = []
    store.broken = {fault}
    with Cache(store, on_warning=warnings.append, clock=FakeClock()) as cache:
        for k in range(20):
            assert cache.get([KEYS[0]]) == {} or fault == "put"
            cache.put({KEYS[1]: arrays(k)})
    counters = cache.counters
    assert (counters.hits, counters.misses, counters.stored + counters.unstored) == (0, 20, 20)
    assert counters.stored == (20 if fault == "get" else 0)
    [warning] = warnings
    assert warnings == cache.warnings
    assert f"broken://store cannot {fault}" in warning


def test_a_failing_store_is_paused_and_tried_again_later(store, cache, clock):
    store.broken = {"get"}
    for _ in range(10):
        cache.get(KEYS)
    assert store.calls.count("get") == FAILURES == cache.counters.errors
    clock.advance(PAUSE_SECONDS)
    cache.get(KEYS)
    cache.get(KEYS)
    assert store.calls.count("get") == FAILURES + 1
    clock.advance(PAUSE_SECONDS)
    store.broken = set()
    cache.put(results([0]))
    assert cached(cache, ALL) == cached(cache, ALL) == [0]


def test_isolated_failures_do_not_pause_a_store(store, cache):
    for k in range(10):
        store.broken = {"get"} if k % 2 else set()
        cache.get(KEYS)
    assert store.calls.count("get") == 10


def test_a_store_that_cannot_write_is_still_read(store, cache):
    cache.put(results([0]))
    store.broken = {"put"}
    for _ in range(10):
        cache.put(results([1]))
    assert cached(cache, ALL) == [0]
    assert store.calls.count("put") == 1 + FAILURES


def test_a_damaged_entry_is_a_miss_and_is_replaced(store, cache):
    cache.put(results(range(2)))
    for key in KEYS[:2]:
        store.entries[key.digest] = store.entries[key.digest][:-1] + b"x"
    store.entries[KEYS[2].digest] = store.entries[KEYS[3].digest] = b""
    assert cache.get(KEYS) == {}
    assert (cache.counters.damaged, cache.counters.misses) == (4, 4)
    [warning] = cache.warnings
    assert "headrace cache verify" in warning
    cache.put(results([0]))
    assert cached(cache, [0]) == [0]


def test_a_too_large_result_is_counted_and_the_others_are_stored(store, cache):
    store.max_entry_bytes = 4096
    cache.put(results([0], width=1000) | results([1]))
    assert cached(cache, ALL) == [1]
    assert (cache.counters.too_large, cache.counters.unstored, cache.counters.stored) == (1, 1, 1)
    assert "fewer frames" in cache.warnings[0]


def test_problems_of_a_store_are_one_warning(store):
    store.notes = ["has no maxmemory", "saves"]
    assert Cache(store).warnings == ["the cache broken://store: has no maxmemory; saves"]


def test_a_store_that_becomes_available_later_is_used(store):
    store.broken = {"open"}
    cache = Cache(store, clock=FakeClock())
    store.broken = set()
    cache.put(results([0]))
    assert cached(cache, ALL) == [0]


def test_empty_requests_do_not_reach_the_store(store, cache):
    cache.put({})
    assert cache.get([]) == {}
    assert store.calls == ["open"]


def test_a_cache_is_a_file_a_folder_or_the_default(tmp_path, monkeypatch):
    home, user_cache = tmp_path / "home", tmp_path / "cache"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(user_cache))
    for text, file in {
        (): user_cache / "headrace" / FILE,
        ("sqlite",): user_cache / "headrace" / FILE,
        (str(tmp_path),): tmp_path / FILE,
        (str(tmp_path / "a"),): tmp_path / "a",
        ("~/b",): home / "b",
    }.items():
        with open_cache(*text) as cache:
            assert cache.where == str(file)
        assert file.exists()


ADDRESSES = {
    "redis://host": "redis://host",
    "redis://:secret@host:6380/3": "redis://host:6380/3",
    "rediss://me:secret@host": "rediss://host",
    "redis://[::1]:6379": "redis://[::1]:6379",
    "unix:///run/redis.sock?db=2": "unix:///run/redis.sock?db=2",
    "unix://:secret@/run/redis.sock": "unix:///run/redis.sock",
    "rediss://host?ssl_ca_certs=/my/ca.pem": "rediss://host",
}


@pytest.mark.parametrize(("url", "where"), ADDRESSES.items())
def test_an_address_is_shown_without_its_password(url, where):
    assert shown(url) == where


def test_another_kind_of_store_is_one_class_and_one_entry(monkeypatch):
    """The methods of `Store` suffice for all features of a cache."""
    stores = {}

    def memory(address):
        return stores.setdefault(address, MemoryStore())

    monkeypatch.setitem(cache_url.SERVERS, "memory", memory)
    address = "memory://:secret@here/1"
    for expected in ([], [0, 1]):
        with open_cache(address) as cache:
            assert cached(cache, range(2)) == expected
            cache.put(results(range(2)))
    assert verify(open_store(address)).entries == 2
    assert prune(open_store(address), to_bytes=0).removed == 2
    assert stores[address].entries == {}
    assert "secret" not in cache_url.shown(address)
    with pytest.raises(ConfigError, match="the bound of a cache server is its maxmemory"):
        open_cache(address, bound_bytes=5)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"frames" * 1000)
    return path


@pytest.fixture
def contents(tmp_path, clock):
    with ContentDigests(tmp_path, clock=clock) as contents:
        yield contents


def test_each_version_of_a_file_is_read_once_across_processes(tmp_path, file, clock):
    with ContentDigests(tmp_path, clock=clock) as first:
        digest = first.of(Source(file))
        assert (first.of(Source(file)), first.read) == (digest, 1)
    with ContentDigests(tmp_path, clock=clock) as later:
        assert (later.of(Source(file)), later.read) == (digest, 0)
        file.write_bytes(b"Frames" * 1000)
        assert later.of(Source(file)) != digest
        assert later.read == 1


def test_a_digest_depends_on_the_content_not_on_the_name(tmp_path, file, contents):
    copy, other = tmp_path / "b.mp4", tmp_path / "c.mp4"
    content = bytearray(file.read_bytes())
    copy.write_bytes(content)
    content[3000] ^= 1
    other.write_bytes(content)
    assert contents.of(Source(copy)) == contents.of(Source(file)) != contents.of(Source(other))


def test_a_file_replaced_with_the_same_size_and_mtime_is_read_again(file, contents):
    digest, before = contents.of(Source(file)), file.stat()
    file.write_bytes(b"Frames" * 1000)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert contents.of(Source(file)) != digest


def test_a_recently_changed_file_is_read_again(tmp_path, file):
    with ContentDigests(tmp_path) as contents:
        contents.of(Source(file))
        contents.of(Source(file))
        assert contents.read == 2


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"\xa5" * 4096), os.mkdir])
def test_an_unreadable_table_only_costs_reading_the_file(tmp_path, file, clock, damage):
    damage(tmp_path / DIGESTS)
    with ContentDigests(tmp_path, clock=clock) as contents:
        assert contents.of(Source(file)) == contents.of(Source(file))
        assert contents.read == 1


@pytest.mark.parametrize("name", ["gone", "empty", "."])
def test_a_missing_or_empty_file_is_an_open_error(tmp_path, contents, name):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(OpenError):
        contents.of(Source(tmp_path / name))


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, file):
    class ChangingClock(FakeClock):
        """Changes the file in `wall_seconds`, which is called while the file is examined."""

        def wall_seconds(self):
            file.write_bytes(b"more frames")
            return super().wall_seconds()

    with (
        ContentDigests(tmp_path, clock=ChangingClock()) as contents,
        pytest.raises(OpenError, match="changed while it was read"),
    ):
        contents.of(Source(file))
