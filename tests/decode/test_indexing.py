"""Indexes of many videos: those that processes scan are those of one after the other."""

from dataclasses import fields

import numpy as np
import pytest

from decode import scanning_workers
from extraction import extracting
from headrace.decode.index_store import IndexStore
from headrace.decode.indexing import scan_ahead, workers_that_pay
from headrace.decode.scanning import scan_videos
from headrace.errors import OpenError
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.held import HeldSource
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


class SlowClock(FakeClock):
    """By it whatever is done takes a second: all that is left is given to workers."""

    def now_ns(self):
        self.advance(1.0)
        return super().now_ns()


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A first one, which is scanned here, and three for workers; of 3, 4, 5 and 6 frames."""
    folder = tmp_path_factory.mktemp("clips")
    return [
        Source(write_clip(folder / f"{n}.mp4", SynthClip(num_frames=n, size=(64, 96))))
        for n in (3, 4, 5, 6)
    ]


@pytest.fixture
def bad(tmp_path):
    """One that is not there, and one that is no video."""
    (tmp_path / "text.mp4").write_text("no video")
    return [Source(tmp_path / "gone.mp4"), Source(tmp_path / "text.mp4")]


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "store")


def by_workers(sources, store, *, function=scan_videos, raises=False, **given):
    clock = SlowClock()
    return scan_ahead(sources, store, raises=raises, function=function, clock=clock, **given)


def same(one, other):
    """Whether two indexes are equal in all but where they are kept."""
    kept = {"kept_in", "verdicts"}
    pairs = [
        (getattr(one, each.name), getattr(other, each.name))
        for each in fields(StreamIndex)
        if each.name not in kept
    ]
    return all(np.array_equal(*pair) for pair in pairs)


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("spent", "done", "left", "cores", "workers"),
    [
        ((0, 0), 0, 9999, 64, 1),  # nothing is known yet
        ((SECOND // 10, SECOND // 10), 10, 9999, 64, 1),  # another moment will tell
        ((SECOND, SECOND), 10, 7, 64, 1),  # done sooner than a process begins
        ((SECOND, SECOND), 10, 20, 64, 5),  # two seconds are worth five starts
        ((SECOND, SECOND), 10, 9999, 8, 8),
        ((SECOND, SECOND), 10, 9999, 1, 1),
        ((SECOND, SECOND), 10, 9999, 64, 16),
        ((SECOND, SECOND // 4), 10, 9999, 2, 8),  # a disk is waited for three times out of four
    ],
)
def test_processes_begin_where_they_pay(spent, done, left, cores, workers):
    assert workers_that_pay(*spent, done, left, cores) == workers


def test_workers_find_what_one_after_the_other_finds(clips, store, tmp_path):
    shown = []
    open_one = by_workers(clips, store, on_scanned=lambda *said: shown.append(said))
    assert store.counters.misses == 1, "workers scan all but the first"
    plain = IndexStore(tmp_path / "plain")
    assert all(same(open_one(each), plain.load(each)) for each in reversed(clips))
    assert [done for _, done, _ in shown] == [1, 2, 3, 4]
    assert {name for name, *_ in shown} == {each.path.name for each in clips}


def test_what_is_known_is_not_scanned(clips, store):
    for each in clips:
        store.load(each)
    open_one = by_workers(clips, store, function=extracting.cannot_begin)
    assert [len(open_one(each)) for each in clips] == [3, 4, 5, 6]
    assert (store.counters.misses, store.counters.hits) == (4, 4)


def test_bad_videos_say_so_when_they_are_asked_for(clips, bad, store):
    open_one = by_workers([*clips, *bad], store)
    assert [len(open_one(each)) for each in clips] == [3, 4, 5, 6]
    for each in bad:
        with pytest.raises(OpenError, match=str(each)):
            open_one(each)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_first_error_is_that_of_the_first_bad_video(clips, bad, store, order):
    sources = [*clips[:2], *(bad[place] for place in order), *clips[2:]]
    open_one = by_workers(sources, store, raises=True)
    with pytest.raises(OpenError, match=str(bad[order[0]])):
        [open_one(each) for each in sources]


def test_a_video_that_ends_processes_is_named(clips, store):
    open_one = by_workers(clips, store, function=extracting.crashes_at_a_scan_of_five_frames)
    assert [len(open_one(clips[place])) for place in (0, 1, 3)] == [3, 4, 6]
    with pytest.raises(OpenError, match=r"5\.mp4: working on it crashed.* by signal 11"):
        open_one(clips[2])


def test_without_a_store_or_without_processes_it_takes_longer_only(clips, store, tmp_path):
    (tmp_path / "file").write_text("")
    unkept = by_workers(clips, IndexStore(tmp_path / "file"))
    alone = by_workers(clips, store, function=extracting.cannot_begin)
    for open_one in (unkept, alone):
        assert [len(open_one(each)) for each in clips] == [3, 4, 5, 6]


@pytest.mark.parametrize(("rank", "begun"), [(0, "3456"), (1, "5634")])
def test_each_rank_begins_with_another_video(clips, store, rank, begun):
    shown = []

    def on_scanned(name, done, of):
        shown.append(name[0])

    scan_ahead(clips, store, raises=True, rank=rank, ranks=2, on_scanned=on_scanned)
    assert shown == [*begun]


def test_workers_verify_as_well(clips, store):
    open_one = by_workers(clips, store, verify=True, holds=False)
    assert all(open_one(each).counted_by == "decode" for each in clips)


def test_what_has_no_path_is_opened_when_it_is_asked_for(clips, store):
    held = HeldSource.holding(clips[1].path.read_bytes())
    open_one = by_workers([held, clips[0]], store)
    assert [len(open_one(each)) for each in (held, clips[0])] == [4, 3]


def test_ctrl_c_ends_the_workers(clips, store):
    with pytest.raises(KeyboardInterrupt):
        by_workers(clips, store, function=scanning_workers.interrupts_its_parent)
