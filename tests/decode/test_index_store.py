"""Indexes on disk and scans by workers: nothing is read again, nothing stale or false returned."""

import io
import json
import os
import shutil
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from decode.kit import interrupts_its_parent
from extraction import extracting
from headrace import CacheError, OpenError, Source, StreamIndex
from headrace.decode import index_store
from headrace.decode.index_store import IndexStore, StoreCounters
from headrace.decode.parallel_scan import scan_ahead, scan_videos, useful_workers
from headrace.decode.proxy_index import read_proxy_entry
from headrace.extraction.extraction_plan import indexes_of
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.memory_source import MemorySource
from tests.surface.kept_states import RECORDED

pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture
def clip(written, tmp_path):
    return Source(shutil.copy(written("vfr_mp4"), tmp_path / "clip.mp4"))


def same(index, other):
    """Return whether two indexes are equal, except for their store path and status."""
    names = {field.name for field in fields(StreamIndex)} - {"store_path", "frame_status"}
    return all(np.array_equal(getattr(index, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_index_equals_the_scanned_one(store, written, kind):
    source = Source(written(kind))
    assert same(store.load(source), store.load(source))
    assert store.counters == StoreCounters(hits=1, misses=1)


def test_a_known_file_is_opened_without_reading_a_packet(store, clip):
    """The content is replaced by zeros of equal size and time: only the store has the index."""
    first, times = store.load(clip), clip.path.stat()
    clip.path.write_bytes(bytes(times.st_size))
    os.utime(clip.path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert same(store.load(clip), first)


def test_a_changed_file_is_scanned_again(store, clip, written):
    store.load(clip)
    clip.path.write_bytes(written("h264_one_frame").read_bytes())
    assert len(store.load(clip)) == 1
    assert store.counters == StoreCounters(misses=2)


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"PK\x03\x04junk", b"\x80\x04cos\nsystem\n(S'exit 1'\ntR.", "cut off"]
)
def test_a_damaged_entry_is_rebuilt_and_counted(store, clip, content):
    store.load(clip)
    whole = store.entry(clip).read_bytes()
    store.entry(clip).write_bytes(whole[: len(whole) // 2] if content == "cut off" else content)
    assert len(store.load(clip)) == 48
    assert len(store.load(clip)) == 48
    assert store.counters == StoreCounters(hits=1, misses=2, damaged=1)


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


def test_writing_leaves_only_the_entry(store, clip):
    store.load(clip)
    assert list(store.folder.iterdir()) == [store.entry(clip)]


def test_streams_of_a_file_have_their_own_entries(store):
    path = Path("a.mp4")
    assert store.entry(Source(path, 0)) != store.entry(Source(path, 1)) != store.entry(Source(path))


def test_a_missing_file_is_not_served_from_the_store(store, clip):
    store.load(clip)
    clip.path.unlink()
    with pytest.raises(OpenError, match="no such file"):
        store.load(clip)


LARGE = 2**62


@pytest.fixture
def stored(written, tmp_path):
    """Store with the entry of a clip of two GOPs."""
    store = IndexStore(tmp_path / "store")
    source = Source(written(SynthClip(num_frames=24, gop=12)))
    store.load(source)
    return store, source


def rewritten(entry, change):
    """Rewrite an entry; `change` gets its files by name and the parsed header."""
    with zipfile.ZipFile(entry) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    header = json.loads(bytes(np.load(io.BytesIO(members["header.npy"]))))
    changed = change(members, header)
    text = changed if isinstance(changed, bytes) else json.dumps(header).encode()
    members["header.npy"] = as_npy(np.frombuffer(text, np.uint8))
    with zipfile.ZipFile(entry, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def of_array(name, edit):
    """Change an array in place, or replace it by the result of `edit`."""

    def change(members, header):
        array = np.load(io.BytesIO(members[f"{name}.npy"]))
        new = edit(array)
        members[f"{name}.npy"] = as_npy(array if new is None else new)

    return change


def of_header(group, **values):
    return lambda members, header: header[group].update(values)


def of_cell(name, row, column, value):
    return of_array(name, lambda array: array.__setitem__((row, column), value))


def of_text(name, old, new):
    """Change the text before the values of an array."""

    def change(members, header):
        content = members[f"{name}.npy"]
        assert old in content
        members[f"{name}.npy"] = content.replace(old, new.ljust(len(old))[: len(old)], 1)

    return change


CHANGES = {
    "a header that is nested too deeply": lambda members, header: b"[" * 99_999,
    "a header that is a list": lambda members, header: b"[]",
    "a time base of nothing": of_header("info", time_base="1/0"),
    "a time base without ticks": of_header("info", time_base="0"),
    "a time base that takes forever": of_header("info", time_base="1e999999999"),
    "a height that is text": of_header("info", height="96"),
    "frames without end": of_header("info", height=2**31, width=2**31),
    "an orientation of nothing": of_header("info", orientation={"is_transposed": None}),
    "a codec that is a number": of_header("info", codec=264),
    "packets below 0": of_header("index", packets=-1),
    "packets without end": of_header("index", packets=LARGE),
    "packets that are text": of_header("index", packets="24"),
    "no array": lambda members, header: members.update({"frames.npy": b"frames"}),
    "an array missing": lambda members, header: members.pop("gops.npy") and None,
    "an array cut off": lambda m, header: m.update({"signature.npy": m["signature.npy"][:-8]}),
    "a shape without end": of_text("frames", b"(4, 24)", b"(4, 9**9)"),
    "an array of objects": of_text("frames", b"'<i8'", b"'|O' "),
    "a header of an array that does not end": of_text("frames", b"'<i8'", b"(((((("),
    "another dtype": of_array("frames", lambda array: array.astype(np.float64)),
    "one dimension": of_array("frames", lambda array: array[0]),
    "no frames": of_array("frames", lambda array: array[:, :0]),
    "no GOPs": of_array("gops", lambda array: array[:, :0]),
    "times that go back": of_cell("frames", 0, 5, -LARGE),
    "a packet too many": of_cell("frames", 2, 5, 24),
    "a packet below 0": of_cell("frames", 2, 5, -1),
    "a GOP behind the end": of_cell("gops", 0, 1, LARGE),
    "a first GOP that is not at 0": of_cell("gops", 0, 0, 1),
    "GOPs that go back": of_cell("gops", 0, 1, 0),
    "a GOP of no packet": of_cell("gops", 1, 1, LARGE),
    "parameter sets below 0": of_cell("gop_told", 1, 0, -5),
    "parameter sets behind the end": of_cell("gop_told", 1, 1, LARGE),
    "an unknown entry": of_cell("gops", 5, 1, 9),
    "signatures of other packets": of_array("signature", lambda array: array[:-1]),
    "a doubled packet that is not there": of_array("doubled", lambda _: np.array([LARGE])),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_inconsistent_entry_is_rebuilt(stored, change):
    store, source = stored
    whole = store.find(source)
    rewritten(store.entry(source), change)
    assert store.find(source) is None
    assert store.counters.damaged == 1
    assert np.array_equal(store.load(source).pts, whole.pts)


def test_an_entry_that_lists_more_bytes_than_the_file_has_is_rebuilt(stored):
    store, source = stored
    entry = store.entry(source)
    content = bytearray(entry.read_bytes())
    at = content.index(b"PK\1\2")
    for size in (20, 24):
        content[at + size : at + size + 4] = (2**31).to_bytes(4, "little")
    entry.write_bytes(content)
    assert store.find(source) is None


OF_PROXIES = {
    "a size of text": of_header("proxy", size=["48", "64"]),
    "a size of one number": of_header("proxy", size=[48]),
    "a colour of lists": of_header("proxy", colour=[[1], [2]]),
    "no packets": of_array("packets", lambda array: array[:, :0]),
    "checksums missing": of_array("packets", lambda array: array[:3]),
}


@pytest.mark.parametrize("change", OF_PROXIES.values(), ids=OF_PROXIES)
def test_an_inconsistent_proxy_entry_is_refused(tmp_path, change):
    entry = tmp_path / "a.npz"
    entry.write_bytes((RECORDED / "proxies" / "videos" / "a.npz").read_bytes())
    source = Source("a.mp4")
    assert len(read_proxy_entry(entry, source)[0]) == 36
    rewritten(entry, change)
    with pytest.raises(CacheError, match="copy it again"):
        read_proxy_entry(entry, source)


class SlowClock(FakeClock):
    """Clock by which every step takes a second, so that workers scan the rest."""

    def now_ns(self):
        self.advance(1.0)
        return super().now_ns()


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Four videos of 3, 4, 5 and 6 frames; the first is scanned here, the others by workers."""
    folder = tmp_path_factory.mktemp("clips")
    clips = [SynthClip(num_frames=count, size=(64, 96)) for count in (3, 4, 5, 6)]
    return [Source(write_clip(folder / f"{clip.num_frames}.mp4", clip)) for clip in clips]


@pytest.fixture
def bad(tmp_path):
    """A missing file, and a file that is not a video."""
    (tmp_path / "text.mp4").write_text("no video")
    return [Source(tmp_path / "gone.mp4"), Source(tmp_path / "text.mp4")]


def by_workers(sources, store, *, function=scan_videos, raises=False, **given):
    return scan_ahead(sources, store, raises=raises, function=function, clock=SlowClock(), **given)


def for_extraction(sources, store, *, function=scan_videos, on_scanned=lambda *event: None):
    given = {"workers": 1, "stall_seconds": 60.0, "function": function, "on_video": on_scanned}
    found = indexes_of(sources, store, **given)

    def open_one(source):
        if isinstance(found[source], OpenError):
            raise found[source]
        return found[source]

    return open_one


doors = pytest.mark.parametrize("ahead", [by_workers, for_extraction])


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("spent", "done", "left", "cores", "workers"),
    [
        ((0, 0), 0, 9999, 64, 1),  # no rate is known yet
        ((SECOND // 10, SECOND // 10), 10, 9999, 64, 1),  # too early to decide
        ((SECOND, SECOND), 10, 7, 64, 1),  # done before a process starts
        ((SECOND, SECOND), 10, 20, 64, 5),  # two seconds equal five starts
        *(((SECOND, SECOND), 10, 9999, cores, most) for cores, most in ((8, 8), (1, 1), (64, 16))),
        ((SECOND, SECOND // 4), 10, 9999, 2, 8),  # three quarters of the time are waits for a disk
    ],
)
def test_workers_start_only_if_useful(spent, done, left, cores, workers):
    assert useful_workers(*spent, done, left, cores) == workers


@doors
def test_workers_find_the_same_indexes(ahead, clips, store, tmp_path):
    shown = []
    open_one = ahead(clips, store, on_scanned=lambda *event: shown.append(event))
    assert store.counters.misses == (ahead is by_workers), "workers scan all, or all but the first"
    plain = IndexStore(tmp_path / "plain")
    assert all(same(open_one(each), plain.load(each)) for each in reversed(clips))
    seen = shown if ahead is by_workers else shown[:4]  # the other reports known videos too
    assert [done for _, done, _ in seen] == [1, 2, 3, 4]
    assert {name for name, *_ in seen} == {each.path.name for each in clips}


@doors
def test_known_videos_are_not_scanned(ahead, clips, store):
    for each in clips:
        store.load(each)
    open_one = ahead(clips, store, function=extracting.cannot_start)
    assert [len(open_one(each)) for each in clips] == [3, 4, 5, 6]
    assert (store.counters.misses, store.counters.hits) == (4, 4)


@doors
def test_bad_videos_raise_when_opened(ahead, clips, bad, store):
    open_one = ahead([*clips, *bad], store)
    assert [len(open_one(each)) for each in clips] == [3, 4, 5, 6]
    for each in bad:
        with pytest.raises(OpenError, match=str(each)):
            open_one(each)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_first_error_is_of_the_first_bad_video(clips, bad, store, order):
    sources = [*clips[:2], *(bad[place] for place in order), *clips[2:]]
    open_one = by_workers(sources, store, raises=True)
    with pytest.raises(OpenError, match=str(bad[order[0]])):
        [open_one(each) for each in sources]


CRASHED = "working on it crashed.* by signal 11; leave it out, or copy it again$"


@doors
def test_a_video_that_kills_workers_is_named(ahead, clips, store):
    open_one = ahead(clips, store, function=extracting.crashes_at_a_scan_of_five_frames)
    assert [len(open_one(clips[place])) for place in (0, 1, 3)] == [3, 4, 6]
    with pytest.raises(OpenError, match=rf"5\.mp4: {CRASHED}"):
        open_one(clips[2])


@doors
def test_a_scan_works_without_store_or_workers(ahead, clips, store, tmp_path):
    (tmp_path / "file").write_text("")
    unkept = ahead(clips, IndexStore(tmp_path / "file"))
    assert [len(unkept(each)) for each in clips] == [3, 4, 5, 6]
    if ahead is by_workers:
        alone = ahead(clips, store, function=extracting.cannot_start)
        assert [len(alone(each)) for each in clips] == [3, 4, 5, 6]


@pytest.mark.parametrize(("rank", "order"), [(0, "3456"), (1, "5634")])
def test_each_rank_starts_at_another_video(clips, store, rank, order):
    shown = []

    def on_scanned(name, done, of):
        shown.append(name[0])

    scan_ahead(clips, store, raises=True, rank=rank, ranks=2, on_scanned=on_scanned)
    assert shown == [*order]


def test_workers_verify_as_well(clips, store):
    open_one = by_workers(clips, store, verify=True, holds=False)
    for each in clips:
        index = open_one(each)
        assert all(index.frame_status.knows(k) for k in range(len(index)))


def test_a_video_without_a_path_is_opened_on_request(clips, store):
    held = MemorySource.from_content(clips[1].path.read_bytes())
    open_one = by_workers([held, clips[0]], store)
    assert [len(open_one(each)) for each in (held, clips[0])] == [4, 3]


def test_ctrl_c_ends_the_workers(clips, store):
    with pytest.raises(KeyboardInterrupt):
        by_workers(clips, store, function=interrupts_its_parent)
