"""Maintenance of a store: verification, pruning, and explanation of misses."""

import math
from dataclasses import replace

import pytest

from cache.made import MemoryStore, arrays, key, same
from cache.redis_server import CACHE_SETTINGS, redis_server
from headrace.cache.cache_url import open_store
from headrace.cache.key import CacheEntry, KeyDifference, encode
from headrace.cache.maintenance import find, nearest, prune, verify
from headrace.cache.sqlite_store import SqliteStore
from headrace.errors import CacheError, ConfigError


@pytest.fixture(params=["sqlite", "redis", "memory"])
def store(request, tmp_path):
    """Yield each kind of store, with entries of five chunks."""
    if request.param == "redis":
        with redis_server(tmp_path, *CACHE_SETTINGS) as server:
            yield from filled(open_store(server.url))
    else:
        is_file = request.param == "sqlite"
        yield from filled(SqliteStore(tmp_path / "a.sqlite") if is_file else MemoryStore())


def entry(k):
    return encode(CacheEntry(key(k), arrays(k)))


def filled(store):
    store.put({key(k).digest: entry(k) for k in range(5)})
    yield store
    store.close()


def digests(store):
    return {info.digest for info in store.list_entries()}


def digests_of(*chunks):
    return {key(k).digest for k in chunks}


@pytest.fixture
def file(tmp_path, clock):
    store = SqliteStore(tmp_path / "a.sqlite", clock=clock)
    yield store
    store.close()


def test_an_intact_store_has_no_damage(store):
    progress = []
    result = verify(store, on_progress=lambda done, of: progress.append((done, of)))
    assert (result.entries, result.damaged, progress[-1]) == (5, (), (5, 5))


def test_damaged_entries_are_listed_and_removed_on_request(store):
    store.put({key(0).digest: entry(1)[:-1] + b"x", key(2).digest: entry(1)})
    result = verify(store)
    assert {entry.digest: entry.reason for entry in result.damaged} == {
        key(0).digest: "does not match its checksum",
        key(2).digest: f"belongs to another key, {key(1).digest}",
    }
    assert len(digests(store)) == 5
    assert verify(store, repair=True).is_repaired
    assert digests(store) == digests_of(1, 3, 4)
    assert verify(store).damaged == ()


def test_pruning_to_zero_removes_everything_and_a_dry_run_nothing(store):
    planned = prune(store, to_bytes=0, dry_run=True)
    assert len(digests(store)) == 5
    assert prune(store, to_bytes=0) == replace(planned, is_dry_run=False)
    assert (planned.removed, planned.left, planned.left_bytes) == (5, 0, 0)
    assert digests(store) == set()


def test_pruning_to_a_size_keeps_what_fits(store):
    size = sum(info.size_bytes for info in store.list_entries())
    done = prune(store, to_bytes=size // 2)
    assert (done.removed, done.left) == (3, 2)
    assert done.left_bytes == sum(info.size_bytes for info in store.list_entries()) <= size // 2
    assert prune(store, to_bytes=size // 2).removed == 0


def test_the_least_recently_used_entries_are_pruned_first(file, clock):
    for k in range(5):
        file.put({key(k).digest: bytes(100)})
        clock.advance(10)
    file.get([key(0).digest])
    file.close()
    clock.advance(10)
    assert prune(file, older_than_seconds=45).removed == 1
    assert digests(file) == digests_of(0, 2, 3, 4)
    prune(file, to_bytes=250)
    assert digests(file) == digests_of(0, 4)


def test_verification_is_not_a_use(file, clock):
    file.put({key().digest: encode(CacheEntry(key(), arrays()))})
    clock.advance(100)
    verify(file)
    file.close()
    assert [info.unused_seconds for info in file.list_entries()] == [100]
    assert file.state().hits == 0


def test_a_server_with_an_lfu_policy_cannot_prune_by_age(tmp_path):
    with redis_server(tmp_path, "maxmemory 100mb", "maxmemory-policy allkeys-lfu") as server:
        store = open_store(server.url)
        store.put({key().digest: b"x"})
        assert [math.isnan(info.unused_seconds) for info in store.list_entries()] == [True]
        with pytest.raises(CacheError, match="does not record when entries were last used"):
            prune(store, older_than_seconds=1)
        assert prune(store, to_bytes=0).removed == 1
        store.close()


def test_an_entry_is_found_by_a_prefix_of_its_digest(store):
    for digits in (64, 6):
        result = find(store, key(3).digest[:digits].upper())
        assert result.key == key(3)
        assert same(result.arrays, arrays(3))
    assert find(store, "0" * 10) is find(store, key(99).digest) is None


def test_an_ambiguous_prefix_or_a_damaged_entry_is_an_error(store):
    store.put({"ab" * 32: b"x", "ab" * 31 + "cd": b"x", key(0).digest: b"x"})
    with pytest.raises(ConfigError, match=r"2 keys .* give more digits"):
        find(store, "ababab")
    with pytest.raises(CacheError, match="verify --repair"):
        find(store, key(0).digest)


def test_a_miss_is_explained_by_the_entry_that_differs_least(store):
    store.put({"ab" * 32: b"damaged"})
    missing = key(3, numerics={"precision": "float16"})
    best = nearest(store, missing)
    assert best.key == key(3)
    assert best.differences == (KeyDifference("numerics.precision", "float16", "float32"),)
    store.remove(list(digests(store)))
    assert nearest(store, missing) is None
