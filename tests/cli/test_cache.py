"""`headrace cache` as a user meets it."""

import json

import pytest

from cache.made import arrays, key
from cache.redis_server import free_port, redis_server
from cli.kit import reason
from headrace.cache.open import FILE, open_cache


@pytest.fixture
def where(tmp_path):
    """A cache with the results of five chunks, of which it gave three of four."""
    path = tmp_path / "mine" / FILE
    with open_cache(str(path)) as cache:
        cache.put({key(k): arrays(k) for k in range(5)})
        cache.get(key(k) for k in (0, 1, 2, 9))
    return path


@pytest.fixture
def cache(call, where):
    """Return a function: a command and its words -> (exit code, stdout, stderr) on that cache."""
    return lambda command, *words: call("cache", command, "--cache", where, *words)


@pytest.fixture
def wanted(tmp_path):
    """The file of a key that differs from one of those that are kept."""
    path = tmp_path / "wanted.json"
    path.write_text(key(3, preprocess={"crop": 256, "mean": [0.5, 0.25]}).text)
    return path


def test_info_says_where_how_full_and_how_it_served(call, cache, where):
    assert cache("info") == (
        0,
        f"cache    {where}\n"
        "results  5\n"
        "size     0.004 MB of 10.0 GiB\n"
        "hits     3 of 4 asked for, 75 %\n",
        "",
    )
    facts = json.loads(call("cache", "info", "--cache", where.parent, "--json")[1])
    assert (facts["entries"], facts["hits"], facts["misses"]) == (5, 3, 1)


def test_the_default_cache_and_that_of_the_environment_are_found(call, where, monkeypatch):
    with open_cache() as cache:
        cache.put({key(): arrays()})
    assert "results  1\n" in call("cache", "info")[1]
    monkeypatch.setenv("HEADRACE_CACHE", str(where))
    assert "results  5\n" in call("cache", "info")[1]


def test_a_server_is_told_with_what_is_wrong_with_it_and_without_its_password(
    call, tmp_path, monkeypatch
):
    with redis_server(tmp_path, "maxmemory 9mb", password="secret") as server:
        monkeypatch.setenv("HEADRACE_CACHE", server.url.replace("//", "//:secret@"))
        code, out, err = call("cache", "info")
        monkeypatch.delenv("HEADRACE_CACHE")
        wrong = call("cache", "info", "--cache", server.url)
    assert (code, "noeviction" in out, "secret" in out + err) == (0, True, False)
    assert (wrong[0], "wants another user or password" in reason(wrong[2])) == (2, True)
    code, out, err = call("cache", "verify", "--cache", f"redis://127.0.0.1:{free_port()}")
    assert (code, out, "cannot be reached" in reason(err)) == (1, "", True)


def test_verify_names_damage_and_repair_removes_it(cache, where):
    assert cache("verify") == (0, "5 results checked, 0 damaged\n", "")
    store = open_cache(str(where))._store
    store.put({key(0).digest: b"damaged"})
    store.close()
    code, out, _ = cache("verify")
    assert (code, out.splitlines()[0].split()[0]) == (1, key(0).digest)
    assert "5 results checked, 1 damaged\nTry next" in out
    code, out, _ = cache("verify", "--json")
    assert (code, len(json.loads(out)["damaged"])) == (1, 1)
    code, out, _ = cache("verify", "--repair")
    assert (code, out.splitlines()[-1]) == (0, "5 results checked, 1 damaged and removed")
    assert cache("verify")[1] == "4 results checked, 0 damaged\n"


def test_all_commands_say_the_same_of_a_damaged_file_and_leave_it_until_it_is_repaired(
    cache, where
):
    content = bytearray(where.read_bytes())
    content[:100] = b"x" * 100
    where.write_bytes(content)
    commands = (["info"], ["verify"], ["prune", "--all"], ["explain", "ab" * 32])
    assert {cache(*words) for words in commands} == {
        (
            1,
            "",
            f"headrace: {where} is damaged: file is not a database; the next run renames it to "
            f"{where.name}.damaged and begins a new one, and so does headrace cache verify "
            "--repair\n",
        )
    }
    assert where.read_bytes() == content
    code, out, err = cache("verify", "--repair")
    assert (code, out) == (0, "0 results checked, 0 damaged\n")
    assert "was damaged; it is now" in err
    assert cache("info")[0] == 0


def test_prune_says_what_it_removes_and_a_dry_run_what_it_would(cache):
    assert cache("prune", "--older-than", "1d")[1].startswith("Removed 0 results")
    assert cache("prune", "--to", "1.5kB", "--dry-run")[1].startswith("Would remove 3 results")
    assert cache("prune", "--to", "1.5kB")[1].startswith("Removed 3 results")
    facts = json.loads(cache("prune", "--all", "--json")[1])
    assert (facts["removed"], facts["left"], facts["is_dry_run"]) == (2, 0, False)


def test_explain_says_what_a_key_is_made_of(cache, where):
    code, out, _ = cache("explain", key(3).digest[:10])
    assert code == 0
    assert f"Key {key(3).digest}\n" in out
    assert "  preprocess.crop     224\n" in out
    assert f"Kept in {where}: features float32 [4, 16], pts int64 [4]\n" in out
    facts = json.loads(cache("explain", key(3).digest, "--json")[1])
    assert (facts["key"]["selection"], facts["is_kept"]) == ({"chunk": 3}, True)
    assert facts["arrays"]["pts"] == {"dtype": "int64", "shape": [4]}


def test_explain_says_in_what_two_differ_and_why_a_key_missed(cache, wanted):
    two = ("explain", key(3).digest[:10], wanted)
    assert cache(*two)[1].splitlines()[1].split() == ["preprocess.crop", "224", "256"]
    difference = {"name": "preprocess.crop", "first": 224, "second": 256}
    assert json.loads(cache(*two, "--json")[1]) == [difference]
    assert cache("explain", key(3).digest, key(3).digest)[1] == "Both are the same key\n"
    out = cache("explain", wanted)[1]
    assert f"Nearest there is {key(3).digest}" in out
    assert out.splitlines()[-1].split() == ["preprocess.crop", "256", "224"]
    cache("prune", "--all")
    assert "which is empty" in cache("explain", wanted)[1]
