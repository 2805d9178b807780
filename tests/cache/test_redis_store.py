"""A cache on a real server: failures of the server cost hits, never correctness."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest

from cache.made import cached, key, results, same, serve
from cache.redis_server import CACHE_SETTINGS, free_port, redis_server
from certificates import made
from headrace.cache.cache_url import Cache, open_cache, shown
from headrace.cache.redis_store import GROUP_BYTES, MAX_ENTRY_BYTES, PREFIX, RedisStore
from headrace.cache.store import FAILURES, PAUSE_SECONDS
from headrace.errors import CacheError, ConfigError
from headrace.testing.fake_clock import FakeClock

KEYS = list(results())


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Run a server with the settings of a cache."""
    with redis_server(tmp_path_factory.mktemp("redis"), *CACHE_SETTINGS) as server:
        yield server


@pytest.fixture
def server(shared):
    shared.execute("FLUSHALL")
    return shared


@pytest.fixture
def redis_store(server):
    store = RedisStore(server.url, shown(server.url))
    yield store
    store.close()


@pytest.fixture
def start(tmp_path):
    """Return a function that runs a server until the end of the test."""
    with ExitStack() as stack:
        yield lambda *lines, **options: stack.enter_context(
            redis_server(tmp_path, *lines, **options)
        )


def impatient(url):
    return RedisStore(url, shown(url), timeout_seconds=0.05)


def served(url: str, rounds: int = 2) -> tuple[int, list[str]]:
    """Return the hits and warnings of a run with a cache."""
    with open_cache(url, clock=FakeClock()) as cache:
        serve(cache, rounds)
    assert cache.counters.hits + cache.counters.misses == 8 * rounds
    return cache.counters.hits, cache.warnings


def test_results_are_shared_by_all_clients(server):
    assert served(server.url, 1) == (0, [])
    assert served(server.url, 1) == (8, [])


def test_results_larger_than_a_request_are_read_in_groups(server):
    large = {key(k): {"a": np.full(GROUP_BYTES // 3, k, np.uint8)} for k in range(10)}
    with open_cache(server.url) as cache:
        cache.put(large)
        hits = cache.get([*large, key(99)])
    assert list(hits) == list(large)
    assert all(same(hits[chunk_key], arrays) for chunk_key, arrays in large.items())


def test_a_result_above_8_mib_is_not_stored(server):
    with open_cache(server.url) as cache:
        cache.put({key(): {"a": np.zeros(MAX_ENTRY_BYTES, np.uint8)}})
        assert cache.get([key()]) == {}
    assert cache.counters.too_large == 1


def test_keys_of_other_programs_are_ignored(server, redis_store):
    server.execute("SET", "theirs", "1")
    server.execute("SET", PREFIX + b"short", "1")
    server.execute("LPUSH", PREFIX + KEYS[0].digest.encode(), "no text")
    assert [entry.digest for entry in redis_store.list_entries()] == [KEYS[0].digest]
    redis_store.remove([entry.digest for entry in redis_store.list_entries()])
    assert server.execute("DBSIZE") == 2


def test_an_entry_of_another_type_costs_only_its_group(server):
    server.execute("LPUSH", PREFIX + KEYS[0].digest.encode(), "no text")
    assert len(served(server.url)[1]) == 1


def test_the_state_has_entries_bytes_bound_and_hits(redis_store):
    redis_store.put({chunk_key.digest: bytes(1000) for chunk_key in KEYS})
    redis_store.get([KEYS[0].digest])
    state = redis_store.state()
    assert (state.entries, state.bound_bytes, state.notes) == (8, 100 << 20, ())
    assert state.size_bytes >= 8000
    assert state.hits is not None
    assert {entry.unused_seconds < 60 for entry in redis_store.list_entries()} == {True}


def test_a_small_maxmemory_evicts_old_results(start):
    with open_cache(start("maxmemory 4mb", *CACHE_SETTINGS[1:]).url) as cache:
        for k in range(200):
            cache.put(results([k], width=4000))
        assert 0 < len(cached(cache, range(200), width=4000)) < 100
    assert (cache.counters.stored, cache.warnings) == (200, [])


def test_a_full_server_without_eviction_is_still_read(start):
    server = start("maxmemory 4mb", "maxmemory-policy noeviction", "save ''")
    with open_cache(server.url, clock=FakeClock()) as cache:
        for k in range(300):
            cache.put(results([k], width=4000))
        stored = cache.counters.stored
        assert 0 < stored < 100
        assert (cache.counters.unstored, cache.counters.errors) == (300 - stored, FAILURES)
        assert cached(cache, (0, 299), width=4000) == [0]
    policy, full = cache.warnings
    assert "noeviction" in policy
    assert "is full" in full


def test_a_server_killed_during_a_run_costs_hits_and_one_warning(start):
    clock, port = FakeClock(), free_port()
    server = start(*CACHE_SETTINGS, port=port)
    cache = serve(open_cache(server.url, clock=clock))
    server.process.kill()
    server.process.wait()
    serve(cache, 20)
    assert (cache.counters.hits, cache.counters.misses) == (8, 8 + 160)
    assert (len(cache.warnings), cache.counters.errors) == (1, 2 * FAILURES)
    start(*CACHE_SETTINGS, port=port)
    clock.advance(PAUSE_SECONDS)
    serve(cache).close()
    assert (cache.counters.hits, len(cache.warnings)) == (16, 1)


def test_a_server_that_is_down_at_the_start_costs_one_warning():
    hits, [warning] = served(f"redis://me:secret@127.0.0.1:{free_port()}", 5)
    assert (hits, "cannot be reached" in warning, "secret" in warning) == (0, True, False)


def test_an_unresponsive_server_is_paused(start):
    server = start(*CACHE_SETTINGS)
    with Cache(impatient(server.url), clock=FakeClock()) as cache:
        serve(cache, 1)
        server.execute("CLIENT", "PAUSE", "600000")
        serve(cache, 5)
    assert (cache.counters.hits, cache.counters.errors) == (0, FAILURES * 2)
    [warning] = cache.warnings
    assert "did not answer in time" in warning


LRU, UNSAVED, ADVICE = "maxmemory-policy allkeys-lru", "save ''", "deploy/redis.conf"
FORBIDDEN = [f"rename-command {command} secret-{command}" for command in ("CONFIG", "INFO")]
GUEST = "user guest on >guestpass ~headrace:* +@read +@write +ping +select +client"
WARNED = [
    (["maxmemory 9mb", "maxmemory-policy noeviction", UNSAVED], "stores nothing new once full"),
    (["maxmemory 9mb", "maxmemory-policy volatile-lru", UNSAVED], "never evicts results"),
    (["maxmemory 0", UNSAVED], "may use all memory"),
    (["maxmemory 9mb", LRU, "save 60 1"], "to disk"),
    (["maxmemory 9mb", LRU, UNSAVED, "appendonly yes"], "to disk"),
    ([UNSAVED, FORBIDDEN[0]], "may use all memory"),
    ([UNSAVED, *FORBIDDEN], "does not report"),
    ([UNSAVED, GUEST], ""),
]


@pytest.mark.parametrize(("settings", "problem"), WARNED)
def test_a_server_with_unsuitable_settings_causes_one_warning_and_is_used(start, settings, problem):
    """Without permission for CONFIG, the settings come from INFO."""
    user = "guest:guestpass@" if GUEST in settings else ""
    hits, [warning] = served(start(*settings).url.replace("//", f"//{user}"))
    assert (hits, problem in warning) == (8, True)
    assert ADVICE in warning or {GUEST, *FORBIDDEN} & {*settings}


def test_a_wrong_or_missing_password_is_an_error_on_opening(start):
    server = start(*CACHE_SETTINGS, password="pa:ss/wo?rd")
    for user in ("", ":wrong@", "me:wrong@"):
        with pytest.raises(ConfigError, match="rejects the user or password") as caught:
            open_cache(server.url.replace("//", f"//{user}"))
        assert "wrong" not in str(caught.value)
    url = server.url.replace("//", "//:pa%3Ass%2Fwo%3Frd@")
    assert served(url)[0] == 8
    with open_cache(url) as cache:
        assert cache.where == server.url


def test_a_password_changed_during_a_run_costs_one_warning(start):
    server = start(*CACHE_SETTINGS)
    cache = serve(open_cache(server.url, clock=FakeClock()), 1)
    server.execute("CONFIG", "SET", "requirepass", "new")
    cache.close()
    serve(cache, 5).close()
    assert (len(cache.warnings), cache.counters.misses) == (1, 48)


@contextmanager
def listener(answer: bytes) -> Iterator[str]:
    """Run a server that sends the same answer to every request; yield its address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while answer and self.request.recv(65536):
                    self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


ANSWERS = [
    *(b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xfe\r\n", b":abc\r\n", b"$-5\r\n"),
    *(b"*1000000000\r\n", b"$99999999999\r\nabc", b"+OK\r\n" * 50, b"*-1\r\n" * 9),
    *(b"$-1\r\n" * 30, b"-LOADING x\r\n" * 9, b"-MOVED 1 1.1.1.1:1\r\n" * 9, b"#t\r\n" * 9),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_another_server_on_the_port_causes_only_misses(answer):
    with listener(answer) as url, Cache(impatient(url), clock=FakeClock()) as cache:
        serve(cache, 4)
        assert (cache.counters.hits, cache.counters.misses) == (0, 32)
        store = cache._store
        for call in (
            store.state,
            lambda: list(store.list_entries()),
            lambda: store.remove(["0" * 64]),
        ):
            with suppress(CacheError):
                call()


def test_a_server_that_never_replies_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as other:
        store = impatient(f"redis://127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(CacheError, match="did not answer in time"):
            store.open()
        store.close()


def test_a_unix_socket_is_a_valid_address(start, tmp_path):
    path = tmp_path / "redis.sock"
    start(*CACHE_SETTINGS, f"unixsocket {path}")
    assert served(f"unix://{path}") == (8, [])
    with open_cache(f"unix://{path}") as cache:
        assert cache.where == f"unix://{path}"


def test_a_tls_server_is_trusted_by_a_given_certificate(start, tmp_path):
    both, certificate = made(tmp_path, "server", "IP:127.0.0.1")
    url = f"rediss://127.0.0.1:{(port := free_port())}"
    tls = (f"tls-port {port}", f"tls-cert-file {both}", f"tls-key-file {both}")
    start(*CACHE_SETTINGS, *tls, "tls-auth-clients no")
    assert served(f"{url}?ssl_ca_certs={certificate}") == (8, [])
    hits, warnings = served(url)
    assert (hits, "certificate verify failed" in warnings[0]) == (0, True)
    assert len(served(f"{url}?ssl_ca_certs={tmp_path}/gone", 1)[1]) == 1
