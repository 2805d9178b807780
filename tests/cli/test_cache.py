"""`headrace cache` on a result cache."""

import pytest

from cache.made import arrays, key
from cache.redis_server import free_port, redis_server
from cli.kit import reason, transcript
from headrace.cache.cache_url import FILE, open_cache

KEPT = key(3).digest


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    """Path of a cache with five results, three hits and one miss."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_CACHE", f"mine/{FILE}")
    with open_cache(f"mine/{FILE}") as cache:
        cache.put({key(k): arrays(k) for k in range(5)})
        cache.get(key(k) for k in (0, 1, 2, 9))
    return tmp_path / "mine" / FILE


def test_state_keys_and_pruning_are_printed(holds, call, tmp_path):
    """The key in the file differs from a stored key in one part."""
    wanted = key(3, preprocess={"crop": 256, "mean": [0.5, 0.25]})
    (tmp_path / "wanted.json").write_text(wanted.text)
    lines = (
        *("cache info", "cache info --cache mine --json"),
        *(f"cache explain {KEPT[:10]}", f"cache explain {KEPT} --json"),
        *(f"cache explain {KEPT[:10]} wanted.json", f"cache explain {KEPT} wanted.json --json"),
        *(f"cache explain {KEPT} {KEPT}", "cache explain wanted.json"),
        *("cache prune --older-than 1d", "cache prune --to 1.5kB --dry-run"),
        *("cache prune --to 1.5kB", "cache prune --all --json", "cache explain wanted.json"),
    )
    holds("cache.txt", transcript(call, *lines))


def test_the_default_cache_is_found(call, monkeypatch):
    monkeypatch.delenv("HEADRACE_CACHE")
    with open_cache() as cache:
        cache.put({key(): arrays()})
    assert "results  1\n" in call("cache", "info")[1]


def test_errors_of_a_server_name_it_without_its_password(call, tmp_path, monkeypatch):
    with redis_server(tmp_path, "maxmemory 9mb", password="secret") as server:
        monkeypatch.setenv("HEADRACE_CACHE", server.url.replace("//", "//:secret@"))
        code, out, err = call("cache", "info")
        monkeypatch.delenv("HEADRACE_CACHE")
        wrong = call("cache", "info", "--cache", server.url)
    assert (code, "noeviction" in out, "secret" in out + err) == (0, True, False)
    assert (wrong[0], "rejects the user or password" in reason(wrong[2])) == (2, True)
    code, out, err = call("cache", "verify", "--cache", f"redis://127.0.0.1:{free_port()}")
    assert (code, out, "cannot be reached" in reason(err)) == (1, "", True)


def test_verify_lists_damage_and_only_repair_changes_a_damaged_file(holds, call, where):
    said = [transcript(call, "cache verify")]
    store = open_cache(str(where))._store
    store.put({key(0).digest: b"damaged"})
    store.close()
    said.append(transcript(call, *(f"cache verify{flag}" for flag in ("", " --json", " --repair"))))
    said.append(transcript(call, "cache verify"))
    content = bytearray(where.read_bytes())
    content[:100] = b"x" * 100
    where.write_bytes(content)
    commands = ("info", "verify", "prune --all", f"explain {'ab' * 32}")
    said.append(transcript(call, *(f"cache {words}" for words in commands)))
    assert where.read_bytes() == content
    said.append(transcript(call, "cache verify --repair", "cache info"))
    holds("cache_damaged.txt", "\n".join(said))
