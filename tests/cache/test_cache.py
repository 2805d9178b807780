"""A cache gives what was put, whatever its store does; and what may be typed behind --cache."""

import os
import subprocess
import sys

import numpy as np
import pytest

from cache.made import BrokenStore, arrays, key, same
from headrace.cache.cache import Cache
from headrace.cache.contents import FILE as DIGESTS
from headrace.cache.contents import SETTLED_SECONDS, ContentDigests
from headrace.cache.counters import CacheCounters
from headrace.cache.open import FILE, open_cache, open_store
from headrace.cache.redis_address import RedisAddress
from headrace.cache.rest import FAILURES, REST_SECONDS
from headrace.errors import ConfigError, OpenError
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.fake_clock import FakeClock
from headrace.video.source import Source

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


def test_the_default_is_a_file_in_the_users_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for text in ((), ("sqlite",)):
        with open_cache(*text) as cache:
            assert cache.where == str(tmp_path / "headrace" / FILE)


def test_a_folder_gets_a_file_and_a_path_is_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for text, file in ((str(tmp_path), FILE), (str(tmp_path / "a"), "a"), ("~/b", "b")):
        with open_cache(text) as cache:
            assert cache.where == str(tmp_path / file)
        assert (tmp_path / file).exists()


def test_none_keeps_nothing():
    with open_cache("none") as cache:
        cache.put({key(): arrays()})
        assert (cache.is_none, cache.get([key()])) == (True, {})


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "no cache is named"),
        ("memcached://host", {}, "no cache is reached by 'memcached'"),
        ("redis://host", {"bound_bytes": 5}, "a bound of its own"),
        ("a\0b", {}, "zero byte"),
        ("~nobody-of-this-name/x", {}, "cannot be used"),
        ("/tmp/" + "x" * 300, {}, "file name too long"),
        ("sqlite", {"bound_bytes": 0}, "at least 1 byte"),
        ("sqlite", {"bound_bytes": 2**63}, r"below 2\*\*63"),
    ],
)
def test_what_names_no_cache_is_refused(text, options, said):
    with pytest.raises(ConfigError, match=said):
        open_cache(text, **options)


def test_a_store_that_must_be_there_is_not_made(tmp_path):
    with pytest.raises(ConfigError, match="there is no cache"):
        open_store(str(tmp_path / "typo"), must_exist=True)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_what_adds_it(tmp_path):
    """In a Python where nothing of the name redis can be imported."""
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'redis'\", name='redis')"
    )
    code = "from headrace.cache.open import open_cache; open_cache('redis://h')"
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "BackendError: a cache server needs redis" in done.stderr
    assert "pip install 'headrace[redis]'" in done.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host", "redis://host"),
        ("redis://:secret@host:6380/3", "redis://host:6380/3"),
        ("rediss://me:secret@host", "rediss://host"),
        ("redis://[::1]:6379", "redis://[::1]:6379"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("unix://:secret@/run/redis.sock", "unix:///run/redis.sock"),
        ("rediss://host?ssl_ca_certs=/my/ca.pem", "rediss://host"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    address = RedisAddress.of(url)
    assert address.url == url
    assert (str(address), repr(address)) == (shown, f"RedisAddress({shown!r})")


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "unix://",
        "redis://:secret/word@host",
        "redis://:secret?word@host",
        "redis://:secret#word@host",
        "redis://:secret@host:port",
        "redis://:secret@host/name",
        "redis://:secret@[host",
        "redis://host?decode_responses=secret",
        "redis://host?db=secret",
        "http://:secret@host",
    ],
)
def test_what_is_no_address_is_refused_and_not_shown(url):
    with pytest.raises(ConfigError) as caught:
        RedisAddress.of(url)
    assert "secret" not in str(caught.value)


@pytest.fixture
def clock():
    """Files that a test writes have settled by it."""
    return FakeClock(wall_seconds=SYSTEM_CLOCK.wall_seconds() + 2 * SETTLED_SECONDS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"frames" * 1000)
    return path


def test_a_file_is_read_once_for_each_version_also_by_other_processes(tmp_path, file, clock):
    with ContentDigests(tmp_path, clock=clock) as first:
        digest = first.of(Source(file))
        assert first.of(Source(file)) == digest
        assert first.read == 1
    with ContentDigests(tmp_path, clock=clock) as later:
        assert later.of(Source(file)) == digest
        assert later.read == 0
        file.write_bytes(b"Frames" * 1000)
        assert later.of(Source(file)) != digest
        assert later.read == 1


def test_content_counts_not_the_name(tmp_path, file, clock):
    copy, other = tmp_path / "b.mp4", tmp_path / "c.mp4"
    copy.write_bytes(file.read_bytes())
    content = bytearray(file.read_bytes())
    content[3000] ^= 1
    other.write_bytes(content)
    with ContentDigests(tmp_path, clock=clock) as contents:
        assert contents.of(Source(copy)) == contents.of(Source(file)) != contents.of(Source(other))


def test_a_file_put_in_place_with_the_same_size_and_time_is_read(tmp_path, file, clock):
    with ContentDigests(tmp_path, clock=clock) as contents:
        digest = contents.of(Source(file))
        before = file.stat()
        file.write_bytes(b"Frames" * 1000)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert contents.of(Source(file)) != digest


def test_a_file_that_has_just_changed_is_read_again(tmp_path, file):
    with ContentDigests(tmp_path) as contents:
        contents.of(Source(file))
        contents.of(Source(file))
        assert contents.read == 2


@pytest.mark.parametrize("damage", ["garbage", "a folder"])
def test_a_table_that_cannot_be_read_costs_reading_the_file(tmp_path, file, clock, damage):
    table = tmp_path / DIGESTS
    if damage == "garbage":
        table.write_bytes(b"\xa5" * 4096)
    else:
        table.mkdir()
    with ContentDigests(tmp_path, clock=clock) as contents:
        assert contents.of(Source(file)) == contents.of(Source(file))
        assert contents.read == 1


def test_what_is_no_file_is_an_open_error(tmp_path, clock):
    (tmp_path / "empty").write_bytes(b"")
    with ContentDigests(tmp_path, clock=clock) as contents:
        for name in ("gone", "empty", "."):
            with pytest.raises(OpenError):
                contents.of(Source(tmp_path / name))


class ChangingClock(FakeClock):
    """Changes a file when it is first asked the time, which is while the file is looked at."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def wall_seconds(self):
        if self.file is not None:
            self.file.write_bytes(b"more frames")
            self.file = None
        return super().wall_seconds()


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path, file):
    with (
        ContentDigests(tmp_path, clock=ChangingClock(file)) as contents,
        pytest.raises(OpenError, match="changed while it was read"),
    ):
        contents.of(Source(file))
