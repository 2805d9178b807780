"""Batches of one file, in order, whatever is wrong with it."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import pytest

from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.extraction.frames import FrameReader
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number, write_clip
from headrace.video.stream_index import StreamIndex

CLIP = SynthClip(num_frames=30, gop=10, size=(64, 64))


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", CLIP)


@pytest.fixture
def damaged(tmp_path):
    """Return a file of 48 frames of which 30 to 35 cannot be decoded."""
    whole = write_clip(tmp_path / "whole", SynthClip())
    return damage.damage_packets(whole, tmp_path / "bad.mp4", ordinals=[30])


def batches(path, **options) -> FrameReader:
    return FrameReader([StreamIndex.scan(path)], **{"batch_size": 8, "workers": 2, **options})


def numbers(batch) -> list[int]:
    """Return the numbers in the pixels of a batch, which its indices must equal."""
    found = [read_number(frame) for frame in batch.frames]
    assert batch.index.tolist() == found
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [range(8), range(8, 16), range(16, 24), range(24, 30)]),
        ({"batch_size": 100}, [range(30)]),
        ({"stride": 12}, [(0, 12, 24)]),
        ({"stride": 7, "batch_size": 2}, [(0, 7), (14, 21), (28,)]),
        ({"max_batches": 2, "batch_size": 5}, [range(5), range(5, 10)]),
        ({"max_batches": 1, "stride": 100}, [(0,)]),
    ],
)
def test_every_nth_frame_comes_in_order(good, options, expected):
    read = batches(good, **options)
    assert [numbers(batch) for batch in read] == [list(part) for part in expected]
    assert read.frames_planned == sum(map(len, expected)) == read.counters.frames_delivered
    assert read.losses == []


def test_times_are_those_of_the_file(tmp_path):
    path = write_clip(tmp_path / "clip", replace(CLIP, frame_rate=Fraction(10)))
    [_, second] = batches(path, stride=2)
    assert second.pts_seconds == pytest.approx([1.6 + 0.2 * k for k in range(7)])


def test_damage_ends_the_reading_behind_the_good_frames_before_it(damaged):
    reading = iter(batches(damaged))
    found = [numbers(next(reading)) for _ in range(4)]
    assert list(chain(*found)) == list(range(30))
    with pytest.raises(DecodeError, match="frame 30 and 1 more") as caught:
        next(reading)
    assert caught.value.missing == (30, 31)


def test_damage_that_is_skipped_is_left_out_and_listed(damaged):
    read = batches(damaged, on_error="skip")
    found = [numbers(batch) for batch in read]
    assert found[3:5] == [list(range(24, 30)), list(range(36, 40))]
    assert list(chain(*found)) == [*range(30), *range(36, 48)]
    assert [loss.index for loss in read.losses] == list(range(30, 36))
    assert all("cannot be decoded" in loss.cause for loss in read.losses)


def test_a_batch_without_a_good_frame_does_not_come(damaged):
    read = batches(damaged, on_error="skip", batch_size=6)
    assert [batch.index[0] for batch in read] == [0, 6, 12, 18, 24, 36, 42]


def test_a_damaged_start_ends_the_reading_at_once(tmp_path, good):
    path = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[0])
    with pytest.raises(DecodeError, match="frame 0"):
        list(batches(path, batch_size=4))


def test_frames_that_change_their_size_come_at_the_size_of_the_first(tmp_path):
    parts = [
        write_clip(tmp_path / str(side), replace(CLIP, container="ts", size=(side, side)))
        for side in (64, 96)
    ]
    path = damage.concatenate(parts, tmp_path / "both.ts")
    found = [(batch.frames.shape[1:3], read_number(batch.frames[0])) for batch in batches(path)]
    assert {size for size, _ in found} == {(64, 64)}
    assert [number for _, number in found] == [0, 8, 16, 24, 2, 10, 18, 26]


def test_a_file_that_is_gone_is_an_error(good):
    read = batches(good)
    good.unlink()
    with pytest.raises(OpenError, match="no such file"):
        list(read)


def test_a_reading_that_is_given_up_leaves_nothing_open(good):
    reading = iter(batches(good))
    assert len(next(reading)) == 8
    reading.close()


LONG = SynthClip(num_frames=400, gop=13, size=(64, 64), b_frames=2)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Return the index of a clip that is read in several stretches."""
    return StreamIndex.scan(write_clip(tmp_path_factory.mktemp("long") / "clip", LONG))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize(("batch_size", "stride"), [(1, 3), (16, 1), (17, 1), (150, 1), (64, 5)])
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


def test_a_batch_that_the_budget_does_not_hold_is_refused(long):
    reader = FrameReader([long], batch_size=100, memory_budget=99 * 64 * 64 * 3)
    with pytest.raises(ConfigError, match="does not hold a batch of 100 frames of 64x64"):
        next(iter(reader))


def test_a_consumer_that_stands_still_bounds_what_is_decoded(long):
    frame_bytes, workers = 64 * 64 * 3, 2
    budget = 60 * frame_bytes
    reader = FrameReader([long], batch_size=4, workers=workers, memory_budget=budget)
    with closing(iter(reader)) as read:
        next(read)
        held = reader.counters.frames_delivered
    assert held <= 60 + (workers + 2) * 4


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


def test_a_file_that_goes_while_it_is_read_is_lost_from_there_on_if_it_may_be(good):
    read = batches(good, on_error="skip")
    good.unlink()
    assert list(read) == []
    assert [loss.index for loss in read.losses] == list(range(30))
    assert "no such file" in read.losses[0].cause


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"batch_size": 4, "max_batches": 0}, "max_batches must be an integer >= 1, got 0"),
        ({"max_batches": 3}, "max_batches=3 needs a batch_size"),
        ({"workers": 0}, "workers must be an integer >= 1, got 0"),
    ],
)
def test_impossible_batches_are_refused_at_once(options, message):
    with pytest.raises(ConfigError, match=message):
        FrameReader(["a.mp4"], **options)


def test_asking_how_many_frames_there_are_reads_and_lists_nothing(good, tmp_path):
    reader = FrameReader([tmp_path / "gone.mp4", good], on_error="skip")
    assert reader.frames_planned == 30
    assert (reader.losses, reader.counters.opens) == ([], 0)
