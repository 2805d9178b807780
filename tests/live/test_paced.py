"""A file in real time: its frames exactly, each due at its pts, however late the reader is."""

from fractions import Fraction

import pytest

from headrace.errors import DecodeError, OpenError
from headrace.testing.damage import damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, Timing, read_number, write_clip
from live.reading import Read


def test_every_frame_is_due_at_its_pts(tmp_path, store):
    durations = (Fraction(1, 10), Fraction(3, 10))
    clip = SynthClip(num_frames=12, timing=Timing(durations_seconds=durations), b_frames=2)
    path = write_clip(tmp_path / "clip", clip)
    clock = FakeClock(now_ns=7_000)
    read = Read(str(path), store=store, clock=clock)
    list(read)
    assert [read_number(frame.pixels) for frame in read.frames] == list(range(12))
    seconds = [pts - clip.pts_seconds[0] for pts in clip.pts_seconds]
    assert [frame.arrived_ns for frame in read.frames] == [
        7_000 + round(s * 10**9) for s in seconds
    ]
    assert read.kinds == ["joined", "ended"]
    assert read.source.base == "schedule"
    assert read.source.name == str(path)
    read.check_conserved()


def test_a_reader_that_is_late_gets_every_frame_with_its_moment(tmp_path, store):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=10, frame_rate=Fraction(10)))
    clock = FakeClock()
    read = Read(str(path), store=store, clock=clock)
    for _ in read:
        clock.advance(1)
    assert [frame.arrived_ns for frame in read.frames] == [k * 10**8 for k in range(10)]
    assert read.waiter.waited_ns == 0


@pytest.fixture
def damaged(tmp_path):
    """Two dozen frames; 5 and 6 are damaged."""
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=24, gop=1))
    return damage_packets(path, tmp_path / "damaged.mp4", ordinals=[5, 6])


def test_a_damaged_frame_ends_the_source_behind_the_frames_before_it(damaged, store):
    read = Read(str(damaged), store=store, clock=FakeClock())
    with pytest.raises(DecodeError, match=r"damaged\.mp4"):
        list(read)
    assert [frame.number for frame in read.frames] == [0, 1, 2, 3, 4]


def test_a_damaged_frame_that_may_be_skipped_is_dropped_in_its_place_and_a_run_ends(damaged, store):
    read = Read(str(damaged), store=store, clock=FakeClock(), on_error="skip")
    list(read)
    assert [loss.index for loss in read.source.losses] == [5, 6]
    assert len(read.items) == 24
    assert [frame.run for frame in read.frames] == [0] * 5 + [1] * 17
    assert [frame.number for frame in read.frames] == [*range(5), *range(7, 24)]
    told = [(event.words, event.frames) for event in read.events if event.kind == "dropped"]
    assert told == [("damaged before frame 7", 2)]
    read.check_conserved()


def test_a_file_that_is_not_there_is_named(store):
    with pytest.raises(OpenError, match=r"cannot open no\.mp4: no such file"):
        list(Read("no.mp4", store=store))


def test_a_playlist_is_no_video(tmp_path, store):
    path = tmp_path / "list.m3u8"
    path.write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    with pytest.raises(OpenError, match="an HLS playlist"):
        list(Read(str(path), store=store))
