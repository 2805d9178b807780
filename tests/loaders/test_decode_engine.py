"""Threads of a loader: they end with it, start anew in a fork, and a hung one is named."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest

from forked import in_a_fork
from headrace import StageError
from headrace.loaders import job_decoder
from headrace.loaders.decode_engine import Engine
from headrace.loaders.frame_memory import DecodeTask, PackedFrame, UnpackTask
from loaders.videos import DOORS, SIZE, contents, epochs
from runtime.in_time import in_time


@pytest.mark.parametrize("leads_back", [False, True])
@pytest.mark.parametrize("door", ["frames", "cameras"])
def test_threads_end_with_a_loader_whose_transform_may_lead_back_to_it(
    videos, layout, store, door, leads_back
):
    """As where a module of data holds its loader, and the loader a method of the module."""

    class Data:
        def __init__(self, kind, options):
            given = {"size": SIZE, "index_store": store, **options}
            transform = self.augment if leads_back else None
            self.loader = kind(files, transform=transform, **given)

        def augment(self, frame):
            return frame

    files = layout if door == "cameras" else videos
    before = threading.active_count()
    data = Data(*DOORS[door])
    batches = iter(data.loader)
    next(batches)
    assert threading.active_count() > before
    del data, batches
    gc.collect()
    assert threading.active_count() == before


def test_threads_end_with_the_epoch_unless_persistent(loader):
    before = threading.active_count()
    each = loader(prefetch_next_epoch=False)
    list(each)
    assert threading.active_count() == before
    assert contents(each)


def test_a_loader_that_was_closed_may_be_iterated_again(loader):
    each = loader()
    whole = contents(each)
    each.close()
    each.set_epoch(0)
    assert contents(each) == whole


def test_a_forgotten_loader_does_not_keep_the_program_from_ending(videos, store):
    """Its thread of jobs waits for room, as no further batch is taken."""
    script = f"""
import sys, time
from pathlib import Path
from headrace import FrameLoader, IndexStore, SequentialFrames
loader = FrameLoader(
    [Path({str(videos[0])!r})], batch_size=4, size=(32, 48), memory_budget=20 * 32 * 48 * 3,
    sampling=SequentialFrames(), index_store=IndexStore(Path({str(store.folder)!r})), num_threads=1,
)
batches = iter(loader)
next(batches)
while not loader._running.engine.room._changed._waiters:
    pass
1 / 0
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert "ZeroDivisionError" in done.stderr


def test_a_process_that_was_forked_has_threads_of_its_own(loader, plain):
    each = loader(num_threads=1)
    expected = contents(each)

    def gives_the_same():
        each.set_epoch(0)
        return contents(each) == expected

    assert in_a_fork(gives_the_same)


class Hanging:
    """A decoder whose jobs wait until the test releases them."""

    def __init__(self, decoder, release):
        self._decoder = decoder
        self._release = release
        self.index, self.shape, self.counters = decoder.index, decoder.shape, decoder.counters
        self.close = decoder.close
        self.rest = decoder.rest
        self.concealed = frozenset()

    def run(self, job, out=None):
        self._release.wait()
        return self._decoder.run(job, out)


def test_a_worker_that_hangs_is_named_with_its_file_and_left_behind(videos, loader, monkeypatch):
    release, open_decoder = threading.Event(), job_decoder.open_any_decoder

    def open_hanging(*each, **options):
        return Hanging(open_decoder(*each, **options), release)

    monkeypatch.setattr(job_decoder, "open_any_decoder", open_hanging)
    before = set(threading.enumerate())
    hung = loader("frames", videos[:1], stall_seconds=0.05, batch_size=4, num_threads=1)
    with pytest.raises(StageError, match=rf"frames of .*{videos[0].name}.* without a result"):
        in_time(lambda: next(iter(hung)))
    left = set(threading.enumerate()) - before
    assert [each.name for each in left] == ["headrace-loader-0"]
    release.set()
    for each in left:
        each.join()
    assert len(next(iter(hung)).frames) == 4


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_no_thread_waits_for_the_job_of_another(
    loader, disk, monkeypatch, whole_gops_at_once, place
):
    """One job lasts until another thread has come past packed frames of it."""
    passed, held = threading.Event(), []
    decode, unpack = Engine._decode, Engine._unpack

    def decode_late(self, item, worker):
        if item.packing is not None and not held:
            held.append(item)
        if held[:1] == [item]:
            assert passed.wait(30), "no other thread came past frames of this job"
        return decode(self, item, worker)

    def unpack_seen(self, item, worker):
        decoded = unpack(self, item, worker)
        if any(each.after in held[:1] for each in item.frames):
            passed.set()
        return decoded

    options = {"num_threads": 2, "batch_size": 5}
    expected = contents(epochs(loader(**options), 3))
    monkeypatch.setattr(Engine, "_decode", decode_late)
    monkeypatch.setattr(Engine, "_unpack", unpack_seen)
    packed = {"hold": "packed"} if place == "memory" else {"spill": disk}
    found = in_time(lambda: contents(epochs(loader(**options, **packed), 3)))
    assert found == expected
    assert held


def test_a_finished_job_holds_no_batch_and_defers_nothing():
    """It lives on until its last frame is delivered, which may be a window later."""
    job = DecodeTask(job=None, packing=None, permits=0)
    packed = PackedFrame(frame=7, source=job, after=job)
    unpacking = UnpackTask(frames=[packed], rows={7: 0}, pixels=None)
    assert job.defer(unpacking, packed)
    assert job.finish() == {unpacking: [packed]}
    assert not job.defer(unpacking, packed)
    seen = weakref.ref(unpacking)
    gc.disable()
    try:
        del unpacking
        assert seen() is None
    finally:
        gc.enable()
