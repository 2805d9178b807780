"""A cache on a real server: whatever happens to the server, results are right and a run goes on."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from cache.made import arrays, key, same
from cache.redis_server import free_port, redis_server
from certificates import made
from headrace.cache.cache import Cache
from headrace.cache.open import open_cache
from headrace.cache.redis_address import RedisAddress
from headrace.cache.redis_store import GROUP_BYTES, MAX_ENTRY_BYTES, PREFIX, RedisStore
from headrace.cache.rest import FAILURES, REST_SECONDS
from headrace.errors import CacheError, ConfigError
from headrace.testing.fake_clock import FakeClock

CACHE_SETTINGS = ("maxmemory 100mb", "maxmemory-policy allkeys-lru", "save ''", "appendonly no")
KEYS = [key(k) for k in range(8)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server that is set up as a cache."""
    with redis_server(tmp_path_factory.mktemp("redis"), *CACHE_SETTINGS) as server:
        yield server


@pytest.fixture
def server(shared):
    shared.ask("FLUSHALL")
    return shared


def store(server, **options):
    return RedisStore(RedisAddress.of(server.url), **options)


def serve(cache: Cache, rounds: int) -> None:
    """What a run does: take what is there, put what is not; all it gets is right."""
    for _ in range(rounds):
        found = cache.get(KEYS)
        assert all(same(found[KEYS[k]], arrays(k)) for k in range(8) if KEYS[k] in found)
        cache.put({KEYS[k]: arrays(k) for k in range(8) if KEYS[k] not in found})


def test_results_are_shared_by_all_who_know_the_address(server):
    with open_cache(server.url) as first, open_cache(server.url) as second:
        serve(first, 1)
        serve(second, 1)
        assert (second.counters.hits, second.counters.misses) == (8, 0)
        assert first.warnings == second.warnings == []


def test_more_than_goes_over_the_line_at_once_comes_back(server):
    large = {key(k): {"a": np.full(GROUP_BYTES // 3, k, np.uint8)} for k in range(10)}
    with open_cache(server.url) as cache:
        cache.put(large)
        found = cache.get([*large, key(99)])
    assert list(found) == list(large)
    assert all(same(found[each], large[each]) for each in large)


def test_a_result_above_8_mib_is_not_kept(server):
    with open_cache(server.url) as cache:
        cache.put({key(): {"a": np.zeros(MAX_ENTRY_BYTES, np.uint8)}})
        assert cache.get([key()]) == {}
    assert cache.counters.too_large == 1


def test_what_others_keep_there_is_left_alone(server):
    server.ask("SET", "theirs", "1")
    server.ask("SET", PREFIX + b"short", "1")
    server.ask("LPUSH", PREFIX + KEYS[0].digest.encode(), "no text")
    at = store(server)
    assert [each.digest for each in at.kept()] == [KEYS[0].digest]
    at.remove([each.digest for each in at.kept()])
    assert server.ask("DBSIZE") == 2
    at.close()


def test_an_entry_of_another_type_costs_its_group_and_no_more(server):
    server.ask("LPUSH", PREFIX + KEYS[0].digest.encode(), "no text")
    with open_cache(server.url, clock=FakeClock()) as cache:
        serve(cache, 2)
    assert len(cache.warnings) == 1


def test_the_state_tells_entries_bytes_bound_and_hits(server):
    at = store(server)
    at.put({each.digest: bytes(1000) for each in KEYS})
    at.get([KEYS[0].digest])
    state = at.state()
    assert (state.entries, state.bound_bytes, state.notes) == (8, 100 << 20, ())
    assert state.size_bytes >= 8000
    assert state.hits is not None
    assert {each.unused_seconds < 60 for each in at.kept()} == {True}
    at.close()


def test_under_a_small_maxmemory_old_results_go_and_none_is_wrong(tmp_path):
    settings = ("maxmemory 4mb", *CACHE_SETTINGS[1:])
    with redis_server(tmp_path, *settings) as server, open_cache(server.url) as cache:
        for k in range(200):
            cache.put({key(k): arrays(k, width=4000)})
        found = cache.get(key(k) for k in range(200))
    assert 0 < len(found) < 100
    assert all(same(found[key(k)], arrays(k, width=4000)) for k in range(200) if key(k) in found)
    assert (cache.counters.stored, cache.warnings) == (200, [])


def test_a_full_server_that_evicts_nothing_is_still_read(tmp_path):
    settings = ("maxmemory 4mb", "maxmemory-policy noeviction", "save ''")
    with (
        redis_server(tmp_path, *settings) as server,
        open_cache(server.url, clock=FakeClock()) as cache,
    ):
        for k in range(300):
            cache.put({key(k): arrays(k, width=4000)})
        stored = cache.counters.stored
        assert 0 < stored < 100
        assert cache.counters.unstored == 300 - stored
        assert cache.counters.errors == FAILURES
        assert list(cache.get([key(0), key(299)])) == [key(0)]
    assert [("noeviction" in cache.warnings[0]), ("is full" in cache.warnings[1])] == [True, True]
    assert len(cache.warnings) == 2


def test_a_server_killed_in_mid_run_costs_hits_and_one_warning(tmp_path):
    clock, port = FakeClock(), free_port()
    with redis_server(tmp_path, *CACHE_SETTINGS, port=port) as server:
        cache = open_cache(server.url, clock=clock)
        serve(cache, 2)
        server.process.kill()
        server.process.wait()
        serve(cache, 20)
    assert (cache.counters.hits, cache.counters.misses) == (8, 8 + 160)
    assert len(cache.warnings) == 1
    assert cache.counters.errors == 2 * FAILURES
    with redis_server(tmp_path, *CACHE_SETTINGS, port=port):
        clock.advance(REST_SECONDS)
        serve(cache, 2)
        assert cache.counters.hits == 16
        cache.close()
    assert len(cache.warnings) == 1


def test_a_server_that_is_down_from_the_start_costs_one_warning():
    with open_cache(f"redis://me:secret@127.0.0.1:{free_port()}", clock=FakeClock()) as cache:
        serve(cache, 5)
    assert (cache.counters.hits, cache.counters.misses) == (0, 40)
    assert len(cache.warnings) == 1
    assert "cannot be reached" in cache.warnings[0]
    assert "secret" not in cache.warnings[0]


def test_a_server_that_does_not_answer_in_time_is_left_alone(tmp_path):
    with redis_server(tmp_path, *CACHE_SETTINGS) as server:
        cache = Cache(store(server, timeout_seconds=0.05), clock=FakeClock())
        serve(cache, 1)
        server.ask("CLIENT", "PAUSE", "600000")
        serve(cache, 5)
        cache.close()
    assert cache.counters.hits == 0
    assert cache.counters.errors == FAILURES * 2
    assert len(cache.warnings) == 1
    assert "did not answer in time" in cache.warnings[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("maxmemory 9mb", "maxmemory-policy noeviction", "save ''"), "once full it keeps nothing"),
        (("maxmemory 9mb", "maxmemory-policy volatile-lru", "save ''"), "results never go"),
        (("maxmemory 0", "save ''"), "takes all memory"),
        (("maxmemory 9mb", "maxmemory-policy allkeys-lru", "save 60 1"), "to disk"),
        (("maxmemory 9mb", "maxmemory-policy allkeys-lru", "save ''", "appendonly yes"), "to disk"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_server_that_is_set_up_otherwise_is_warned_of_once(tmp_path, settings, said):
    with redis_server(tmp_path, *settings) as server, open_cache(server.url) as cache:
        serve(cache, 2)
        assert cache.counters.hits == 8
    assert len(cache.warnings) == 1
    assert said in cache.warnings[0]
    assert "deploy/redis.conf" in cache.warnings[0]


@pytest.mark.parametrize(
    ("forbidden", "said"),
    [(("CONFIG",), ["takes all memory"]), (("CONFIG", "INFO"), ["does not tell"])],
)
def test_where_settings_may_not_be_asked_for_what_else_is_told_counts(tmp_path, forbidden, said):
    renamed = [f"rename-command {command} secret-{command}" for command in forbidden]
    with redis_server(tmp_path, "save ''", *renamed) as server, open_cache(server.url) as cache:
        serve(cache, 2)
        assert cache.counters.hits == 8
    assert [each in line for each, line in zip(said, cache.warnings, strict=True)] == [True]


def test_a_user_who_may_not_ask_for_settings_is_served(tmp_path):
    user = "user guest on >guestpass ~headrace:* +@read +@write +ping +select +client"
    with redis_server(tmp_path, "save ''", user) as server:
        with open_cache(server.url.replace("//", "//guest:guestpass@")) as cache:
            serve(cache, 2)
        assert cache.counters.hits == 8
        assert len(cache.warnings) == 1


def test_a_wrong_or_missing_password_is_told_before_anything_is_computed(tmp_path):
    with redis_server(tmp_path, *CACHE_SETTINGS, password="pa:ss/wo?rd") as server:
        for given in ("", ":wrong@", "me:wrong@"):
            with pytest.raises(ConfigError, match="wants another user or password") as caught:
                open_cache(server.url.replace("//", f"//{given}"))
            assert "wrong" not in str(caught.value)
        right = server.url.replace("//", "//:pa%3Ass%2Fwo%3Frd@")
        with open_cache(right) as cache:
            serve(cache, 2)
        assert cache.counters.hits == 8
        assert cache.where == server.url


def test_a_password_that_is_changed_in_mid_run_loses_nothing(tmp_path):
    with redis_server(tmp_path, *CACHE_SETTINGS) as server:
        cache = open_cache(server.url, clock=FakeClock())
        serve(cache, 1)
        server.ask("CONFIG", "SET", "requirepass", "new")
        cache.close()
        serve(cache, 5)
        cache.close()
    assert len(cache.warnings) == 1
    assert cache.counters.misses == 48


@contextmanager
def listener(answer: bytes) -> Iterator[str]:
    """Answers everything in the same way; yields its address."""

    class Answers(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while answer and self.request.recv(65536):
                    self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xfe\r\n", b":abc\r\n", b"$-5\r\n"),
        *(b"*1000000000\r\n", b"$99999999999\r\nabc", b"+OK\r\n" * 50, b"*-1\r\n" * 9),
        *(b"$-1\r\n" * 30, b"-LOADING x\r\n" * 9, b"-MOVED 1 1.1.1.1:1\r\n" * 9, b"#t\r\n" * 9),
    ],
)
def test_where_something_else_listens_everything_misses(answer):
    with listener(answer) as url:
        store = RedisStore(RedisAddress.of(url), timeout_seconds=0.05)
        with Cache(store, clock=FakeClock()) as cache:
            serve(cache, 4)
            assert (cache.counters.hits, cache.counters.misses) == (0, 32)
            for ask in (store.state, lambda: list(store.kept()), lambda: store.remove(["0" * 64])):
                with suppress(CacheError):
                    ask()


def test_a_server_that_is_asked_and_says_nothing_is_told_as_slow():
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = RedisAddress.of(f"redis://127.0.0.1:{other.getsockname()[1]}")
        store = RedisStore(address, timeout_seconds=0.05)
        with pytest.raises(CacheError, match="did not answer in time"):
            store.open()
        store.close()


def test_a_socket_of_this_machine_is_an_address_too(tmp_path):
    path = tmp_path / "redis.sock"
    with redis_server(tmp_path, *CACHE_SETTINGS, f"unixsocket {path}"):
        with open_cache(f"unix://{path}") as cache:
            serve(cache, 2)
        assert (cache.counters.hits, cache.where) == (8, f"unix://{path}")


def test_a_server_by_tls_is_trusted_by_the_certificate_that_is_named(tmp_path):
    both, certificate = made(tmp_path, "server", "IP:127.0.0.1")
    port = free_port()
    tls = (f"tls-port {port}", f"tls-cert-file {both}", f"tls-key-file {both}")
    with redis_server(tmp_path, *CACHE_SETTINGS, *tls, "tls-auth-clients no"):
        with open_cache(f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}") as cache:
            serve(cache, 2)
        assert (cache.counters.hits, cache.warnings) == (8, [])
        with open_cache(f"rediss://127.0.0.1:{port}", clock=FakeClock()) as cache:
            serve(cache, 2)
        assert cache.counters.hits == 0
        assert "certificate verify failed" in cache.warnings[0]
    with open_cache(f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path}/gone") as cache:
        serve(cache, 1)
    assert len(cache.warnings) == 1
