"""Indexes of many videos, scanned by workers."""

import pytest

from extraction import extracting
from headrace.decode.index_store import IndexStore
from headrace.decode.scanning import scan_videos
from headrace.errors import OpenError
from headrace.extraction.indexing import indexes_of
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.source import Source


@pytest.fixture
def clips(tmp_path):
    return [write_clip(tmp_path / f"{n}", SynthClip(num_frames=n, size=(64, 96))) for n in (5, 6)]


def indexed(paths, store, function=scan_videos, **given):
    sources = [Source.of(path) for path in paths]
    found = indexes_of(sources, store, workers=1, stall_seconds=60.0, function=function, **given)
    return [found[source] for source in sources]


def test_workers_scan_what_the_store_does_not_know(clips, tmp_path):
    store, shown = IndexStore(tmp_path / "store"), []
    found = indexed(clips, store, on_video=lambda *said: shown.append(said))
    assert [len(index) for index in found] == [5, 6]
    assert (store.counters.hits, store.counters.misses) == (2, 0)
    assert shown[:2] == [("5.mp4", 1, 2), ("6.mp4", 2, 2)]
    # Known by now: no worker is needed.
    assert len(indexed(clips, store, extracting.cannot_begin)) == 2


def test_a_video_that_ends_its_workers_is_named_and_the_others_are_indexed(clips, tmp_path):
    function = extracting.crashes_at_a_scan_of_five_frames
    for paths in (clips[:1], clips):
        crashed, *others = indexed(paths, IndexStore(tmp_path / f"store{len(paths)}"), function)
        assert isinstance(crashed, OpenError)
        assert str(crashed) == (
            f"cannot open {clips[0]}: working on it crashed: the process ended by signal 11; "
            "leave it out, or copy it again"
        )
        assert [len(index) for index in others] == [6] * (len(paths) - 1)


def test_what_cannot_be_opened_says_so_in_its_own_words(clips, tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    paths = [tmp_path / "gone.mp4", tmp_path / "text.mp4", *clips]
    gone, text, *good = indexed(paths, IndexStore(tmp_path / "store"))
    assert "no such file" in str(gone)
    assert str(paths[1]) in str(text)
    assert [len(index) for index in good] == [5, 6]


def test_a_store_that_cannot_be_written_costs_time_only(clips, tmp_path):
    (tmp_path / "file").write_text("")
    assert [len(index) for index in indexed(clips, IndexStore(tmp_path / "file"))] == [5, 6]
