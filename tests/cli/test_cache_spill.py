"""`headrace cache --spill` on a spill store."""

import re

import pytest

from cli.kit import transcript
from headrace.cache.spill_store import SpillStore
from headrace.testing.fake_clock import FakeClock

COMMANDS = (
    *("cache info --spill mine", "cache info --spill mine --json", "cache verify --spill mine"),
    *("cache prune --spill mine --to 2MB --dry-run", "cache prune --spill mine --to 2MB --json"),
    *("cache prune --spill mine --older-than 1d", "cache info --spill mine"),
    *("cache info --spill other", "cache prune --spill ."),
)


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    """Folder of a store with two streams and five frames, each in its own segment."""
    monkeypatch.chdir(tmp_path)
    clock = FakeClock()
    with SpillStore.open("mine", budget=64 << 20, clock=clock) as store:
        for frame in range(5):
            store.write("ab"[frame % 2], {frame: bytes(600_000)})
            clock.advance(1)
    return tmp_path / "mine"


def shown(call, where, *lines: str) -> str:
    """Return the transcript without times and the folder of the test."""
    text = transcript(call, *lines).replace(str(where.parent), "/home")
    text = re.sub(r'"unused_seconds": [\d.]+', '"unused_seconds": …', text)
    return re.sub(r"last used .* ago", "last used … ago", text)


def test_state_and_pruning_are_printed(holds, call, where):
    holds("cache_spill.txt", shown(call, where, *COMMANDS))


def test_verify_lists_and_repairs_damage(holds, call, where):
    payloads, indexes = (sorted(where.glob(f"*.{kind}")) for kind in ("frames", "index"))
    payloads[0].write_bytes(bytes(100) + b"x" + bytes(599_899))
    indexes[1].write_bytes(b"x" + indexes[1].read_bytes()[1:])
    lines = ("info", "verify", "verify --json", "verify --repair", "verify", "info")
    commands = (f"cache {line} --spill mine" for line in lines)
    holds("cache_spill_damaged.txt", shown(call, where, *commands))
