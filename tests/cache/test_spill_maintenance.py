"""Maintenance of a spill store: verification, repair and pruning."""

import os

import pytest

from headrace.cache.maintenance import SpillSegments, Verification, prune
from headrace.cache.spill_folder import SpillFolder
from headrace.cache.spill_store import SpillStore
from headrace.errors import CacheError, ConfigError
from headrace.runtime.posix import file_lock

BUDGET = 8 << 20
SIZE = 600_000
"""One frame fills a segment."""


@pytest.fixture
def store(tmp_path, clock):
    """Return a store of five segments, written at intervals of 10 s."""
    store = SpillStore.open(tmp_path / "spill", budget=BUDGET, clock=clock)
    for frame in range(5):
        store.write("a", {frame: bytes([frame]) * SIZE})
        clock.advance(10)
    return store


@pytest.fixture
def segments(store, clock):
    return SpillSegments(SpillFolder(store._folder.path, budget=None), clock)


def frames_in(store):
    store._refresh(now=True)
    return store.stored("a", 9).nonzero()[0].tolist()


def paths(store, kind):
    return sorted(store._folder.path.glob(f"*.{kind}"))


def test_an_intact_store_has_no_damage(store, segments):
    progress = []
    result = segments.verify(on_progress=lambda done, of: progress.append((done, of)))
    assert result == Verification(store.where, 5, (), False)
    assert progress == [(done, 5) for done in range(1, 6)]


def flip(path):
    path.write_bytes(b"x" + path.read_bytes()[1:])


@pytest.mark.parametrize(
    ("kind", "damage", "reason"),
    [
        ("frames", flip, "does not match its checksum"),
        ("index", flip, "has a damaged record, or was truncated"),
        ("frames", lambda path: os.truncate(path, 100), "has a damaged record, or was truncated"),
    ],
)
def test_damaged_frames_are_listed_and_removed_on_request(store, segments, kind, damage, reason):
    damage(paths(store, kind)[1])
    digest = f"{paths(store, 'index')[1].stem}.0"
    for repair in (False, True):
        result = segments.verify(repair=repair)
        assert [(entry.digest, entry.reason) for entry in result.damaged] == [(digest, reason)]
        assert (result.entries, result.is_repaired) == (5, repair)
    assert segments.verify() == Verification(store.where, 4, (), False)
    again = SpillStore.open(store.where, budget=BUDGET)
    assert frames_in(again) == [0, 2, 3, 4]
    assert again.warnings == []


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"to_bytes": 0}, []),
        ({"to_bytes": 3 * SIZE}, [3, 4]),
        ({"to_bytes": BUDGET}, [0, 1, 2, 3, 4]),
        ({"older_than_seconds": 25}, [3, 4]),
    ],
)
def test_pruning_removes_the_least_recently_used_segments(store, segments, limits, left):
    planned = prune(segments, **limits, dry_run=True)
    assert frames_in(store) == [0, 1, 2, 3, 4]
    pruned = prune(segments, **limits)
    assert (pruned.removed, pruned.left) == (5 - len(left), len(left))
    assert (planned.removed, planned.left) == (pruned.removed, pruned.left)
    assert frames_in(store) == left
    store.write("a", {8: b"more"})
    assert frames_in(store) == [*left, 8]


def test_a_locked_or_missing_store_is_an_error(store, segments, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.cache.maintenance._LOCK_SECONDS", 0.01)
    is_locked = pytest.raises(CacheError, match="is locked by a writing process")
    with file_lock(store._folder.lock_path), is_locked:
        prune(segments, to_bytes=0)
    with pytest.raises(ConfigError, match="no such file or directory"):
        SpillFolder(tmp_path / "other", budget=None)
    store._folder.path.rename(tmp_path / "elsewhere")
    with pytest.raises(CacheError, match="cannot read"):
        segments.verify()
