"""The settings in deploy/redis.conf are those of a cache, on a real server."""

import re
import shlex
import subprocess
from pathlib import Path

import psutil
import pytest

from cache.redis_server import redis_server
from headrace.cache.open import open_cache, open_store

CONF = Path(__file__).parents[2] / "deploy" / "redis.conf"


def maxmemory_by_the_rule() -> int:
    """What the command in the file says."""
    (command,) = re.findall(r"^# +redis-server .*--maxmemory \$\((.*)\)$", CONF.read_text(), re.M)
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_the_rule_gives_seventy_percent_of_the_machines_memory():
    assert maxmemory_by_the_rule() == pytest.approx(0.7 * psutil.virtual_memory().total, rel=1e-4)


def test_a_server_with_these_settings_is_a_cache_without_a_warning(tmp_path):
    bound = maxmemory_by_the_rule()
    with redis_server(tmp_path, f"include {CONF}", f"maxmemory {bound}") as server:
        with open_cache(server.url) as cache:
            assert cache.warnings == []
        store = open_store(server.url)
        assert store.state().bound_bytes == bound
        store.close()
        for name, value in [("protected-mode", "yes"), ("maxmemory-policy", "allkeys-lru")]:
            assert server.ask("CONFIG", "GET", name) == {name.encode(): value.encode()}
