"""`headrace cache` on a result cache and, with `--spill`, on a spill store."""

import re

import pytest

from cache.made import arrays, key
from cache.redis_server import free_port, redis_server
from cli.kit import reason, transcript
from headrace.cache.cache_url import FILE, open_cache
from headrace.cache.spill_store import SpillStore
from headrace.testing.fake_clock import FakeClock

KEPT = key(3).digest


@pytest.fixture
def where(tmp_path, monkeypatch):
    """Path of a cache with five results, three hits and one miss."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_CACHE", f"mine/{FILE}")
    with open_cache(f"mine/{FILE}") as cache:
        cache.put({key(k): arrays(k) for k in range(5)})
        cache.get(key(k) for k in (0, 1, 2, 9))
    return tmp_path / "mine" / FILE


@pytest.mark.usefixtures("where")
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


@pytest.mark.usefixtures("where")
def test_the_default_cache_is_found(call, monkeypatch):
    monkeypatch.delenv("HEADRACE_CACHE")
    with open_cache() as cache:
        cache.put({key(): arrays()})
    assert "results  1\n" in call("cache", "info")[1]


@pytest.mark.usefixtures("where")
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
    transcripts = [transcript(call, "cache verify")]
    store = open_cache(str(where))._store
    store.put({key(0).digest: b"damaged"})
    store.close()
    transcripts.append(
        transcript(call, *(f"cache verify{flag}" for flag in ("", " --json", " --repair")))
    )
    transcripts.append(transcript(call, "cache verify"))
    content = bytearray(where.read_bytes())
    content[:100] = b"x" * 100
    where.write_bytes(content)
    commands = ("info", "verify", "prune --all", f"explain {'ab' * 32}")
    transcripts.append(transcript(call, *(f"cache {words}" for words in commands)))
    assert where.read_bytes() == content
    transcripts.append(transcript(call, "cache verify --repair", "cache info"))
    holds("cache_damaged.txt", "\n".join(transcripts))


SPILL_COMMANDS = (
    *("cache info --spill mine", "cache info --spill mine --json", "cache verify --spill mine"),
    *("cache prune --spill mine --to 2MB --dry-run", "cache prune --spill mine --to 2MB --json"),
    *("cache prune --spill mine --older-than 1d", "cache info --spill mine"),
    *("cache info --spill other", "cache prune --spill ."),
)


@pytest.fixture
def spilled(tmp_path, monkeypatch):
    """Folder of a store with two streams and five frames, each in its own segment."""
    monkeypatch.chdir(tmp_path)
    clock = FakeClock()
    with SpillStore.open("mine", budget=64 << 20, clock=clock) as store:
        for frame in range(5):
            store.write("ab"[frame % 2], {frame: bytes(600_000)})
            clock.advance(1)
    return tmp_path / "mine"


def shown(call, spilled, *lines: str) -> str:
    """Return the transcript without times and the folder of the test."""
    text = transcript(call, *lines).replace(str(spilled.parent), "/home")
    text = re.sub(r'"unused_seconds": [\d.]+', '"unused_seconds": …', text)
    return re.sub(r"last used .* ago", "last used … ago", text)


def test_state_and_pruning_of_a_spill_store_are_printed(holds, call, spilled):
    holds("cache_spill.txt", shown(call, spilled, *SPILL_COMMANDS))


def test_verify_lists_and_repairs_damage_of_a_spill_store(holds, call, spilled):
    payloads, indexes = (sorted(spilled.glob(f"*.{kind}")) for kind in ("frames", "index"))
    payloads[0].write_bytes(bytes(100) + b"x" + bytes(599_899))
    indexes[1].write_bytes(b"x" + indexes[1].read_bytes()[1:])
    lines = ("info", "verify", "verify --json", "verify --repair", "verify", "info")
    commands = (f"cache {line} --spill mine" for line in lines)
    holds("cache_spill_damaged.txt", shown(call, spilled, *commands))
