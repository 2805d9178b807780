"""Deliveries after the warm-up, costs of all processes, and the correct frames of the baseline."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from forked import raised_by_a_worker
from headrace import (
    DecodeCounters,
    DecodeError,
    EpochSampler,
    FrameDataset,
    FrameLoader,
    OpenError,
    StageError,
)
from headrace.decode.index_store import IndexStore
from headrace.loaders.video_set import VideoSet
from headrace.measuring import loader_adapters as adapters
from headrace.measuring.decode_counts import time_delivery
from headrace.measuring.loader_adapters import SeekPerFrame
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.sampling.frame_samplers import UniformFrames
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import Look, SynthClip, Timing, write_clip
from loaders.videos import CLIPS

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SIZE = (16, 16)


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")


class Metronome:
    """Delivery of 10 frames per second in one batch; each frame costs 3 decodes."""

    held_bytes = 700

    def __init__(self, clock, *, warm_up=0, at_a_time=1):
        self.warm_up = warm_up
        self.at_a_time = at_a_time
        self.counters = DecodeCounters()
        self.is_closed = False
        self._clock = clock

    def batches(self):
        try:
            while True:
                self._clock.advance(1)
                cost = {"frames_decoded": 30, "seeks": 20, "opens": 10, "bytes_read": 500}
                self.counters += DecodeCounters(**cost)
                yield 10
        finally:
            self.is_closed = True


@pytest.mark.parametrize(
    ("options", "seconds", "warm", "frames"),
    [
        ({}, 3, 10, 30),
        ({}, 2.5, 10, 30),
        ({"warm_up": 25}, 3, 30, 30),
        ({"at_a_time": 4}, 3, 10, 40),
        ({"at_a_time": 4}, 5, 10, 80),
    ],
)
def test_a_repetition_has_full_batches_after_the_warm_up(options, seconds, warm, frames):
    clock = FakeClock()
    delivery = Metronome(clock, **options)
    turn = time_delivery("some", delivery, seconds, clock)
    assert (turn.strategy, turn.warm_up_frames, turn.frames) == ("some", warm, frames)
    assert (turn.warm_up_seconds, turn.seconds) == (warm / 10, frames / 10)
    assert (turn.decoded, turn.seeks, turn.opens) == (3 * frames, 2 * frames, frames)
    assert (turn.bytes_read, turn.held_bytes) == (50 * frames, 700)
    assert turn.is_filled
    assert delivery.is_closed


def test_the_warm_up_ends_after_six_times_the_measured_time_and_is_reported():
    clock = FakeClock()
    turn = time_delivery("some", Metronome(clock, warm_up=1000), 2, clock)
    assert turn.warm_up_frames == 120
    assert not turn.is_filled


@pytest.fixture
def clips(tmp_path):
    return [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=6)) for k in range(2)]


def turn_of(delivery):
    return time_delivery("some", delivery, 0.05, SYSTEM_CLOCK)


def through_data_loader(dataset, videos, workers=2):
    sampler = EpochSampler(videos.population, UniformFrames())
    return adapters.DataLoaderDelivery(
        dataset, sampler, batch_size=8, workers=workers, batch_bytes=6144
    )


def test_a_loader_is_counted_by_its_own_statistics(clips, store):
    options = {"lookahead": 24, "memory_budget": "1MiB", "num_threads": 1}
    loader = FrameLoader(clips, batch_size=8, size=SIZE, index_store=store, **options)
    turn = turn_of(adapters.LoaderDelivery(loader))
    assert turn.frames % 8 == 0
    assert turn.warm_up_frames == 24
    assert turn.decoded > 0
    assert turn.held_bytes == loader.statistics.most_held_bytes > 0
    assert turn.bytes_read > 0


def test_decodes_of_dataloader_workers_are_counted(clips, store):
    videos = VideoSet.open(clips, index_store=store)
    turn = turn_of(through_data_loader(SeekPerFrame(videos, SIZE), videos))
    assert turn.opens == turn.seeks == turn.frames
    assert turn.decoded > turn.frames
    assert turn.frames % 16 == 0  # batches of both workers, also at the end of an epoch
    assert turn.held_bytes == 2 * 2 * 6144
    assert turn.cpu_seconds > 0


def test_decodes_of_a_frame_dataset_are_counted(clips, store):
    videos = VideoSet.open(clips, index_store=store)
    with FrameDataset(clips, size=SIZE, index_store=store) as dataset:
        turn = turn_of(through_data_loader(dataset, videos, workers=1))
    assert turn.bytes_read > 0
    assert 0 < turn.decoded <= 4 * 6 * (turn.frames // 8)  # at most a GOP per batch


@pytest.mark.parametrize("is_epoch", [False, True])
def test_a_failed_worker_is_reported_in_one_line(clips, store, is_epoch):
    videos = VideoSet.open(clips, index_store=store)
    clips[1].unlink()
    frames = SeekPerFrame(videos, SIZE)
    message = r"a DataLoader worker failed: cannot open .*1\.mp4"
    with raised_by_a_worker(StageError, message) as caught:
        if is_epoch:
            adapters.time_epoch(frames, batch_size=16, workers=1, frames=1, clock=SYSTEM_CLOCK)
        else:
            turn_of(through_data_loader(frames, videos))
    assert "\n" not in str(caught.value)


class EndingInterrupted:
    """Loader and iterator that raises KeyboardInterrupt while its workers end."""

    persistent_workers = False

    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def _shutdown_workers(self):
        raise KeyboardInterrupt


def test_ctrl_c_is_raised_while_workers_end():
    """In the destructor of the iterator, it would be printed and swallowed."""
    batches = adapters.iterate_batches(EndingInterrupted())
    next(batches)
    with pytest.raises(KeyboardInterrupt):
        batches.close()


UNEVEN = Timing(durations_seconds=(Fraction(1, 25), Fraction(1, 10)))
ODD = [
    SynthClip(num_frames=12, gop=6, look=Look(rotation=90), size=(64, 96)),
    SynthClip(num_frames=12, gop=5, timing=Timing(start_seconds=Fraction(3, 2))),
    SynthClip(num_frames=12, gop=12, b_frames=2, timing=UNEVEN),
]


@pytest.mark.parametrize("size", [(32, 48), (128, 128)])
def test_frames_equal_those_of_headrace_bit_for_bit(written, store, size):
    files = [*map(written, [*CLIPS, *ODD])]
    plain = SeekPerFrame(VideoSet.open(files, index_store=store), size)
    with FrameDataset(files, size=size, index_store=store) as frames:
        assert len(plain) == len(frames)
        for number in [*range(0, len(frames), 5), len(frames) - 1]:
            assert torch.equal(plain[number], frames[number]["frames"]), number


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=20, gop=10))


def test_each_frame_costs_an_open_a_seek_and_decoding_from_its_keyframe(clip, store):
    plain = SeekPerFrame(VideoSet.open([clip], index_store=store), SIZE)
    for number in (3, 3, 14):
        plain[number]
    counters = plain.counters
    assert (counters.opens, counters.seeks, counters.frames_decoded) == (3, 3, 4 + 4 + 5)


@pytest.mark.parametrize("shift", [1, 10**6])
def test_a_frame_that_a_seek_does_not_find_is_named(clip, store, shift):
    videos = VideoSet.open([clip], index_store=store)
    [index] = videos.indexes
    moved = replace(videos, indexes=(replace(index, pts=index.pts + shift),))
    message = r"a plain seek does not find frame 7 of .*clip.*leave it out"
    with pytest.raises(DecodeError, match=message) as caught:
        SeekPerFrame(moved, SIZE)[7]
    assert caught.value.missing == (7,)


def test_a_missing_file_is_named(clip, store):
    plain = SeekPerFrame(VideoSet.open([clip], index_store=store), SIZE)
    clip.unlink()
    with pytest.raises(OpenError, match="clip"):
        plain[0]
