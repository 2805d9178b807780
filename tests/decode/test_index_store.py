"""Indexes on disk: a known file is opened without reading it again, and nothing stale is served."""

import os
from pathlib import Path

import numpy as np
import pytest

from headrace.decode import index_store
from headrace.decode.index_store import IndexStore, StoreCounters
from headrace.errors import OpenError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.source import Source


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "store")


@pytest.fixture
def clip(tmp_path):
    return Source(write_clip(tmp_path / "clip", KINDS["vfr_mp4"]))


def assert_equal(one, other):
    assert one.info == other.info
    assert (one.source, one.packets, one.problems) == (other.source, other.packets, other.problems)
    assert (one.counted_by, one.is_seekable) == (other.counted_by, other.is_seekable)
    for name in ("pts", "duration", "ordinal", "is_droppable"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    for name in ("gop_start", "gop_ordinal", "gop_pts", "gop_dts"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_comes_back_as_it_was(store, tmp_path, kind):
    source = Source(write_clip(tmp_path / kind, KINDS[kind]))
    assert_equal(store.load(source), store.load(source))
    assert store.counters == StoreCounters(hits=1, misses=1)


def test_a_known_file_is_opened_without_reading_a_packet(store, clip):
    """The content is replaced by zeros of the same size and time: only the store can know it."""
    first, times = store.load(clip), clip.path.stat()
    clip.path.write_bytes(bytes(times.st_size))
    os.utime(clip.path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert_equal(store.load(clip), first)


def test_a_changed_file_is_scanned_again(store, clip, tmp_path):
    store.load(clip)
    clip.path.write_bytes(write_clip(tmp_path / "other", KINDS["h264_one_frame"]).read_bytes())
    assert len(store.load(clip)) == 1
    assert store.counters == StoreCounters(misses=2)


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"PK\x03\x04junk", b"\x80\x04cos\nsystem\n(S'exit 1'\ntR."]
)
def test_a_damaged_entry_is_rebuilt_and_counted(store, clip, content):
    store.load(clip)
    store.entry(clip).write_bytes(content)
    assert len(store.load(clip)) == 48
    assert len(store.load(clip)) == 48
    assert store.counters == StoreCounters(hits=1, misses=2, damaged=1)


def test_a_cut_off_entry_is_rebuilt(store, clip):
    store.load(clip)
    whole = store.entry(clip).read_bytes()
    store.entry(clip).write_bytes(whole[: len(whole) // 2])
    assert len(store.load(clip)) == 48
    assert store.counters.damaged == 1


def test_an_entry_of_another_version_is_rebuilt(store, clip, monkeypatch):
    store.load(clip)
    monkeypatch.setattr(index_store, "VERSION", index_store.VERSION + 1)
    store.load(clip)
    assert store.counters == StoreCounters(misses=2)


def test_a_folder_that_cannot_be_written_costs_a_scan_each_time(clip, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = IndexStore(tmp_path / "file" / "store")
    assert len(store.load(clip)) == len(store.load(clip)) == 48
    assert store.counters.hits == 0


def test_writing_leaves_nothing_but_the_entry(store, clip):
    store.load(clip)
    assert list(store.folder.iterdir()) == [store.entry(clip)]


def test_streams_of_one_file_have_entries_of_their_own(store):
    path = Path("a.mp4")
    assert store.entry(Source(path, 0)) != store.entry(Source(path, 1)) != store.entry(Source(path))


def test_a_file_that_is_gone_is_not_served_from_the_store(store, clip):
    store.load(clip)
    clip.path.unlink()
    with pytest.raises(OpenError, match="no such file"):
        store.load(clip)
