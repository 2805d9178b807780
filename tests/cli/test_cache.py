"""`headrace cache` as a user meets it."""

import json

import pytest

from cache.made import arrays, key
from cache.redis_server import free_port, redis_server
from headrace.cache.open import FILE, open_cache


@pytest.fixture
def where(tmp_path):
    """A cache with the results of five chunks, of which it gave three of four."""
    path = tmp_path / "mine" / FILE
    with open_cache(str(path)) as cache:
        cache.put({key(k): arrays(k) for k in range(5)})
        cache.get(key(k) for k in (0, 1, 2, 9))
    return path


def damage(where):
    store = open_cache(str(where))._store
    store.put({key(0).digest: b"damaged"})
    store.close()


def test_info_says_where_how_full_and_how_it_served(call, where):
    code, out, err = call("cache", "info", "--cache", where)
    assert (code, err) == (0, "")
    size = "0.004 MB"
    assert out == (
        f"cache    {where}\n"
        "results  5\n"
        f"size     {size} of 10.0 GiB\n"
        "hits     3 of 4 asked for, 75 %\n"
    )
    found = json.loads(call("cache", "info", "--cache", where.parent, "--json")[1])
    assert (found["entries"], found["hits"], found["misses"]) == (5, 3, 1)


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
    assert code == 0
    assert "noeviction" in out
    assert "secret" not in out + err
    assert wrong[0] == 2
    assert wrong[2].count("\n") == 1
    assert "wants another user or password" in wrong[2]


def test_a_server_that_is_down_is_a_failure_in_one_line(call):
    code, out, err = call("cache", "verify", "--cache", f"redis://127.0.0.1:{free_port()}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "cannot be reached" in err


def test_verify_names_damage_and_repair_removes_it(call, where):
    assert call("cache", "verify", "--cache", where) == (0, "5 results checked, 0 damaged\n", "")
    damage(where)
    code, out, _ = call("cache", "verify", "--cache", where)
    assert (code, out.splitlines()[0].split()[0]) == (1, key(0).digest)
    assert "5 results checked, 1 damaged\nTry next" in out
    code, out, _ = call("cache", "verify", "--cache", where, "--json")
    assert (code, len(json.loads(out)["damaged"])) == (1, 1)
    code, out, _ = call("cache", "verify", "--repair", "--cache", where)
    assert (code, out.splitlines()[-1]) == (0, "5 results checked, 1 damaged and removed")
    assert call("cache", "verify", "--cache", where)[1] == "4 results checked, 0 damaged\n"


def test_all_commands_say_the_same_of_a_damaged_file_and_leave_it_until_it_is_repaired(
    call, where, tmp_path
):
    content = bytearray(where.read_bytes())
    content[:100] = b"x" * 100
    where.write_bytes(content)
    commands = (["info"], ["verify"], ["prune", "--all"], ["explain", "ab" * 32])
    answers = {call("cache", *words, "--cache", where) for words in commands}
    ((code, out, err),) = answers
    assert (code, out) == (1, "")
    assert err == (
        f"headrace: {where} is damaged: file is not a database; the next run renames it to "
        f"{where.name}.damaged and begins a new one, and so does headrace cache verify "
        "--repair\n"
    )
    assert where.read_bytes() == content
    code, out, err = call("cache", "verify", "--repair", "--cache", where)
    assert (code, out) == (0, "0 results checked, 0 damaged\n")
    assert "was damaged; it is now" in err
    assert call("cache", "info", "--cache", where)[0] == 0


def test_prune_says_what_it_removes_and_a_dry_run_what_it_would(call, where):
    prune = ("cache", "prune", "--cache", where)
    assert call(*prune, "--older-than", "1d")[1].startswith("Removed 0 results")
    assert call(*prune, "--to", "1.5kB", "--dry-run")[1].startswith("Would remove 3 results")
    assert call(*prune, "--to", "1.5kB")[1].startswith("Removed 3 results")
    found = json.loads(call(*prune, "--all", "--json")[1])
    assert (found["removed"], found["left"], found["is_dry_run"]) == (2, 0, False)


def test_explain_says_what_a_key_is_made_of(call, where):
    code, out, _ = call("cache", "explain", key(3).digest[:10], "--cache", where)
    assert code == 0
    assert f"Key {key(3).digest}\n" in out
    assert "  preprocess.crop     224\n" in out
    assert f"Kept in {where}: features float32 [4, 16], pts int64 [4]\n" in out
    found = json.loads(call("cache", "explain", key(3).digest, "--json", "--cache", where)[1])
    assert (found["key"]["selection"], found["is_kept"]) == ({"chunk": 3}, True)
    assert found["arrays"]["pts"] == {"dtype": "int64", "shape": [4]}


def test_explain_says_in_what_two_differ(call, where, tmp_path):
    wanted = tmp_path / "wanted.json"
    wanted.write_text(key(3, preprocess={"crop": 256, "mean": [0.5, 0.25]}).text)
    explain = ("cache", "explain", "--cache", where, key(3).digest[:10])
    assert call(*explain, wanted)[1].splitlines()[1].split() == ["preprocess.crop", "224", "256"]
    assert call(*explain, key(3).digest)[1] == "Both are the same key\n"
    assert json.loads(call(*explain, wanted, "--json")[1]) == [
        {"name": "preprocess.crop", "first": 224, "second": 256}
    ]


def test_explain_says_why_a_key_missed(call, where, tmp_path):
    wanted = tmp_path / "wanted.json"
    wanted.write_text(key(3, preprocess={"crop": 256, "mean": [0.5, 0.25]}).text)
    out = call("cache", "explain", "--cache", where, wanted)[1]
    assert f"Nearest there is {key(3).digest}" in out
    assert out.splitlines()[-1].split() == ["preprocess.crop", "256", "224"]
    call("cache", "prune", "--all", "--cache", where)
    assert "which is empty" in call("cache", "explain", "--cache", where, wanted)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("info", "--cache", "none"), "no cache is named"),
        (("info", "--cache", "typo"), "there is no cache typo yet"),
        (("info", "--cache", "redis://:se/cret@host"), "%2F"),
        (("prune",), "give one of --to SIZE, --older-than TIME and --all"),
        (("prune", "--all", "--to", "1GiB"), "give one of"),
        (("prune", "--to", "lots"), "a size must read like"),
        (("prune", "--older-than", "5"), "a span of time must read like"),
        (("explain", "zz"), "6 to 64 hexadecimal digits"),
        (("explain", "x" * 300), "6 to 64 hexadecimal digits"),
        (("explain", "abcdef"), "no key in"),
        (("explain", "a", "b", "c"), "give one key, or two"),
    ],
)
def test_what_is_not_possible_is_told_in_one_line(call, where, monkeypatch, arguments, said):
    monkeypatch.setenv("HEADRACE_CACHE", str(where))
    code, out, err = call("cache", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "cret" not in err
