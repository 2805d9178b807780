"""What may be typed behind --cache."""

import os
import subprocess
import sys

import pytest

from cache.made import arrays, key
from headrace.cache.open import FILE, open_cache, open_store
from headrace.errors import ConfigError


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
