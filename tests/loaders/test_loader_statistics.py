"""Statistics of a loader are exact."""

import shutil
import threading
from dataclasses import fields

import av
import pytest

from headrace import LoaderStatistics, SequentialFrames, open_index
from headrace.testing.synth import SynthClip, write_clip
from loaders.videos import open_videos

H264 = slice(2)
"""Videos that are read packet by packet, without a look at the next packet."""


class TickingClock:
    """A clock with a time for each thread, which advances by a second at each reading."""

    def __init__(self):
        self._own = threading.local()

    def now_ns(self):
        self._own.seconds = getattr(self._own, "seconds", 0) + 1
        return self._own.seconds * 10**9

    def wall_seconds(self):
        return self.now_ns() / 1e9


@pytest.fixture
def loader(opener, videos):
    asked = {"num_threads": 1, "sampling": SequentialFrames(), "prefetch_next_epoch": False}
    return lambda videos=videos, **more: opener("frames", videos, **{**asked, **more})


def test_waiting_for_a_batch_counts_and_its_use_does_not(loader):
    clock = TickingClock()
    each = loader(clock=clock)
    for _ in each:
        clock.now_ns()
    assert each.statistics.starved_seconds == len(each) == 12
    list(each)
    assert each.statistics.starved_seconds == 24


def test_waiting_for_room_counts_once_for_each_job(loader, videos, store):
    """All fits into the window, so each GOP is one job, which waits for room once."""
    each = loader(lookahead=200, clock=TickingClock())
    gops = sum(open_index(video, store).num_gops for video in videos)
    list(each)
    assert each.statistics.blocked_seconds == gops
    list(each)
    assert each.statistics.blocked_seconds == 2 * gops


def test_a_file_is_opened_once_an_epoch_and_each_packet_read_once(loader, videos):
    each = loader(videos[H264])
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
    loader, videos, tmp_path, workers
):
    """24 MB leave room for two open files; all work is done when the last batch arrives."""
    copies = [shutil.copy(videos[1], tmp_path / f"{k}.mp4") for k in range(9)]
    counts = []

    def count(frames):
        counts.append(len(open_videos(tmp_path)))
        return frames

    each = loader(copies, memory_budget="24MB", num_threads=workers, transform=count)
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
    nothing = dict.fromkeys((each.name for each in fields(LoaderStatistics)), 0)
    assert LoaderStatistics(**nothing).amplification == 0
    one = LoaderStatistics(**{**nothing, "frames_decoded": 6, "frames_delivered": 4})
    assert one.amplification == 1.5
