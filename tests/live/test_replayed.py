"""Files played again and again: every frame when it is due, and as many as are asked for."""

from fractions import Fraction
from itertools import pairwise

import pytest

from headrace.decode.open import open_index
from headrace.errors import DecodeError
from headrace.live.replayed import Replayed
from headrace.runtime.waiter import Waiter
from headrace.testing.damage import damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number, write_clip

TEN = Fraction(10)


@pytest.fixture
def index(tmp_path, store):
    clip = SynthClip(num_frames=5, frame_rate=TEN, b_frames=1)
    return open_index(write_clip(tmp_path / "clip", clip), store)


def frames_of(*indexes, **options):
    clock = FakeClock(now_ns=7_000)
    return list(Replayed(indexes, **options).frames(0, Waiter(clock))), clock


def test_it_begins_again_after_the_last_frame_as_another_run(index):
    frames, _ = frames_of(index, frames=12)
    assert [read_number(frame.pixels) for frame in frames] == [*range(5), *range(5), 0, 1]
    assert [frame.number for frame in frames] == list(range(12))
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 5 + [2] * 2
    assert [frame.arrived_ns for frame in frames] == [7_000 + k * 10**8 for k in range(12)]


@pytest.mark.parametrize(("speed", "interval_ns"), [(2.0, 5 * 10**7), (0.5, 2 * 10**8)])
def test_its_timetable_can_be_faster_or_slower(index, speed, interval_ns):
    frames, clock = frames_of(index, frames=7, speed=speed)
    due = [frame.arrived_ns for frame in frames]
    assert {later - sooner for sooner, later in pairwise(due)} == {interval_ns}
    assert clock.now_ns() == due[-1], "it waited for each, and not longer"


def test_at_full_speed_it_never_waits(index):
    source = Replayed([index], frames=9, speed=None)
    assert source.base == "full_speed"
    frames, clock = frames_of(index, frames=9, speed=None)
    assert (len(frames), clock.now_ns()) == (9, 7_000)


def test_a_delay_shifts_all_but_the_first_frame(index):
    frames, _ = frames_of(index, frames=3, delay_seconds=0.04)
    assert [frame.arrived_ns for frame in frames] == [7_000, 140_007_000, 240_007_000]


def test_several_videos_take_turns_each_in_its_own_size(index, tmp_path, store):
    clip = SynthClip(num_frames=3, frame_rate=TEN, size=(96, 192))
    wide = open_index(write_clip(tmp_path / "wide", clip), store)
    frames, _ = frames_of(index, wide, frames=10)
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 3 + [2] * 2
    assert frames[5].pixels.shape == (96, 192, 3)
    assert frames[8].pixels.shape == frames[0].pixels.shape


def test_a_frame_is_not_decoded_before_it_is_due(index):
    clock = FakeClock()
    frames = Replayed([index], frames=3).frames(0, Waiter(clock))
    next(frames)
    assert clock.now_ns() == 0, "the next one is waited for when it is asked for"
    next(frames)
    assert clock.now_ns() == 10**8
    frames.close()


def test_a_damaged_video_is_refused_where_the_damage_is(tmp_path, store):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=24, gop=1))
    damaged = damage_packets(path, tmp_path / "damaged.mp4", ordinals=[5])
    with pytest.raises(DecodeError, match=r"frame 5 of .*damaged\.mp4 is damaged; give a video"):
        frames_of(open_index(damaged, store), frames=24)
