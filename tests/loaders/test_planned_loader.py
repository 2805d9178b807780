"""Statistics and decoding facts of a loader, the advice of a profile, and its effect."""

import gc
import shutil
import threading
from dataclasses import fields
from itertools import islice

import av
import pytest
import torch

import headrace
from bench.clocks import TickingClock
from headrace import Bursts, SequentialFrames, ShuffledFrames, UniformFrames
from headrace.instrumentation.dataloader_hook import record_iterable
from headrace.instrumentation.loop_recorder import LoopRecorder, merge_recorders
from headrace.loaders import frame_memory
from headrace.loaders.planned_loader import describe_decoding, max_open_files
from headrace.profiling.findings.verdict import find
from headrace.testing.synth import SynthClip, write_clip
from loaders.videos import FRAME_BYTES, KEPT, epochs, open_videos

H264 = slice(2)
"""Videos that are read packet by packet, without a look at the next packet."""


class ThreadClock:
    """A clock with a time for each thread, which advances by a second at each reading."""

    def __init__(self):
        self._own = threading.local()

    def now_ns(self):
        self._own.seconds = getattr(self._own, "seconds", 0) + 1
        return self._own.seconds * 10**9

    def wall_seconds(self):
        return self.now_ns() / 1e9


@pytest.fixture
def in_order(opener, videos):
    asked = {"num_threads": 1, "sampling": SequentialFrames(), "prefetch_next_epoch": False}
    return lambda videos=videos, **more: opener("frames", videos, **{**asked, **more})


def test_waiting_for_a_batch_counts_and_its_use_does_not(in_order):
    clock = ThreadClock()
    each = in_order(clock=clock)
    for _ in each:
        clock.now_ns()
    assert each.statistics.starved_seconds == len(each) == 12
    list(each)
    assert each.statistics.starved_seconds == 24


def test_waiting_for_room_counts_once_for_each_job(in_order, videos, store):
    """All fits into the window, so each GOP is one job, which waits for room once."""
    each = in_order(lookahead=200, clock=ThreadClock())
    gops = sum(headrace.open_index(video, store).num_gops for video in videos)
    list(each)
    assert each.statistics.blocked_seconds == gops
    list(each)
    assert each.statistics.blocked_seconds == 2 * gops


def test_a_file_is_opened_once_an_epoch_and_each_packet_read_once(in_order, videos):
    each = in_order(videos[H264])
    size = 0
    for video in videos[H264]:
        with av.open(video) as container:
            size += sum(packet.size for packet in container.demux(video=0))
    list(each)
    assert (each.statistics.opens, each.statistics.bytes_read) == (2, size)
    assert each.statistics.frames_decoded == each.statistics.frames_delivered == 65
    list(each)
    assert (each.statistics.opens, each.statistics.bytes_read) == (4, 2 * size)


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_files_are_open_than_allowed_and_one_for_each_worker(
    in_order, videos, tmp_path, workers
):
    """24 MB leave room for two open files; all work is done when the last batch arrives."""
    copies = [shutil.copy(videos[1], tmp_path / f"{k}.mp4") for k in range(9)]
    counts = []

    def count(frames):
        counts.append(len(open_videos(tmp_path)))
        return frames

    each = in_order(copies, memory_budget="24MB", num_threads=workers, transform=count)
    list(each)
    assert max(counts) <= 2 + workers
    assert counts[-1] == 2
    assert not open_videos(tmp_path)


def test_a_loader_with_room_for_one_file_opens_them_again_and_again(opener, tmp_path):
    videos = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12)) for k in range(3)]
    opens = {}
    for budget in ("1MiB", "64MiB"):
        options = {"batch_size": 6, "size": (16, 16), "memory_budget": budget}
        each = opener("frames", videos, lookahead=1, num_threads=1, **options)
        list(each)
        opens[budget] = each.statistics.opens
    assert opens["1MiB"] > opens["64MiB"] == 3


def test_without_delivered_frames_there_is_no_amplification():
    nothing = dict.fromkeys((each.name for each in fields(headrace.LoaderStatistics)), 0)
    assert headrace.LoaderStatistics(**nothing).amplification == 0
    one = headrace.LoaderStatistics(**{**nothing, "frames_decoded": 6, "frames_delivered": 4})
    assert one.amplification == 1.5


SMALL = {"sampling": UniformFrames(), "memory_budget": 40 * FRAME_BYTES}
"""A third of the frames fits, as pixels."""
LARGE = (48, 64)
"""Size of frames whose packets are not mostly headers."""
LARGE_BYTES = LARGE[0] * LARGE[1] * 3


@pytest.fixture
def profiled(opener):
    """Return `profiled(**options)`: runs a loop, and returns its loader and what it is advised.

    Only the training loop takes time: a second at each reading of the clock.
    """

    def run(count=8, **options):
        loader = opener(clock=TickingClock(1), **options)
        with headrace.profile_loader(loader, clock=TickingClock(1), on_verdict=None) as loop:
            epochs(loop, count)
        return loader, find(loop.session)[0].advice

    return run


def test_a_loop_that_decodes_again_is_advised_a_disk_and_then_decodes_once(
    profiled, opener, tmp_path, monkeypatch
):
    monkeypatch.setattr(frame_memory, "_UNSTORED_BATCHES", 0)
    loader, advice = profiled(**SMALL)
    facts = describe_decoding(loader)
    assert facts.amplification > 3
    assert advice.words.startswith('spill="DIR", a folder on a local disk with 0.198 MB')
    assert advice.gain == pytest.approx(2, rel=0.1)  # half of a step is the wait
    stored = opener(spill=tmp_path / "spill", **SMALL)
    list(stored)
    first = stored.statistics
    assert first.amplification == pytest.approx(facts.store_amplification, rel=0.3)
    assert first.spill.size_bytes == pytest.approx(facts.store_bytes, rel=0.3)
    list(stored)
    assert stored.statistics.frames_decoded <= 1.1 * first.frames_decoded
    assert describe_decoding(stored).store == "used"


@pytest.mark.parametrize(
    ("frames", "options", "change", "words"),
    [
        (
            64,
            {"lookahead": 5},
            {"lookahead": None},
            "No lookahead=5, so that memory_budget decides",
        ),
        (48, {}, {"hold": "packed"}, 'hold="auto", so that frames wait packed'),
        (
            *(42, {"hold": "yuv420"}, {"hold": "packed_yuv420"}),
            'hold="packed_yuv420", so that frames wait packed',
        ),
        (
            *(40, {"decoding": KEPT, "hold": "auto"}, {"memory_budget": 80 * LARGE_BYTES}),
            f"Twice the memory_budget, {40 * LARGE_BYTES}",
        ),
    ],
    ids=["lookahead", "rgb", "yuv420", "memory"],
)
def test_an_option_that_looks_further_ahead_decodes_about_as_few_as_predicted(
    profiled, frames, options, change, words
):
    asked = {**SMALL, "hold": "rgb", "memory_budget": frames * LARGE_BYTES, **options}
    asked["size"] = LARGE
    loader, advice = profiled(**asked)
    facts = describe_decoding(loader)
    after, _ = profiled(**{**asked, **change})
    decoded = describe_decoding(after).amplification
    assert advice.words == words
    assert decoded < facts.amplification
    # Frames pack to fewer bytes than is expected before packing was timed.
    assert 0.6 < decoded / facts.wider_amplification < 1.2


@pytest.mark.parametrize(
    ("door", "options", "on_disk", "wider"),
    [
        ("frames", {}, "possible", None),
        ("frames", {"hold": "packed"}, "possible", None),
        ("frames", {"lookahead": 5, "hold": "rgb"}, "possible", "No lookahead=5"),
        ("frames", {"sampling": Bursts(frames_per_burst=2, lanes=10)}, "possible", None),
        ("frames", {"sampling": SequentialFrames(), "lookahead": 5}, "possible", None),
        ("frames", {"decoding": KEPT}, "impossible", "Twice the memory_budget"),
        ("windows", {}, "possible", None),
        ("windows", {"augment": headrace.ClipAugment(flip=0.5)}, "impossible", None),
    ],
)
def test_facts_name_the_option_that_is_left(opener, door, options, on_disk, wider):
    usual = SMALL if door == "frames" else {"memory_budget": 200 * FRAME_BYTES}
    loader = opener(door, **{**usual, **options})
    assert describe_decoding(loader) is None
    epochs(loader, 4)
    facts = describe_decoding(loader)
    assert facts.store == on_disk
    assert facts.wider is None if wider is None else facts.wider.startswith(wider)
    assert facts.is_packed == (loader.statistics.packed is not None)


def test_frames_that_were_decoded_ahead_while_the_window_was_filled_do_not_count(opener):
    """All frames fit: each is decoded once, most of them for the first batches."""
    loader = opener(sampling=ShuffledFrames())
    batches = iter(loader)
    next(batches)
    assert loader.statistics.amplification > 2
    assert describe_decoding(loader) is None
    list(batches)
    epochs(loader, 6)
    assert describe_decoding(loader).amplification < 1


@pytest.mark.parametrize("other", [[1, 2], torch.zeros(3)])
def test_other_loaders_have_no_decoding_facts(other):
    assert describe_decoding(other) is None


@pytest.mark.parametrize("count", [12, 7], ids=["whole", "left"])
def test_a_recorded_iteration_keeps_the_facts_and_not_the_loader(opener, count):
    """Its iterator may be left where it is, and outlive the profile."""
    loader = opener(**SMALL)
    epochs(loader, 1)
    recorder = LoopRecorder()
    batches = record_iterable(loader, recorder)
    assert len([*islice(batches, count)]) == count
    assert recorder.decoding() is not None
    batches.close()
    kept = recorder.decoding()
    list(loader)
    assert recorder.decoding() == kept != describe_decoding(loader)
    assert merge_recorders([recorder, LoopRecorder()]).decoding() == kept
    assert loader not in gc.get_referents(recorder.decoding, *recorder.decoding.__closure__)


@pytest.mark.parametrize(
    ("budget", "files"), [(1, 1), (2**20, 1), (2**28, 22), (2**30, 89), (2**31, 128), (2**40, 128)]
)
def test_open_files_take_up_to_a_sixteenth_of_the_budget(budget, files):
    assert max_open_files(budget) == files
