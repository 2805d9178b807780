"""Real-time files, the load generator and the test pattern: each frame at its due time."""

from fractions import Fraction

import numpy as np
import pytest

from headrace import DecodeError, OpenError, open_index
from headrace.live.address import PatternAddress
from headrace.live.realtime_source import LoadGenerator, PatternSource
from headrace.runtime.queue import Cancelled
from headrace.runtime.waitable_source import Waiter
from headrace.testing.damage import damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, Timing, read_number, write_clip
from live.reading import Read

TEN = Fraction(10)


@pytest.mark.parametrize("source", [None, "test://?size=96x128&rate=30&seconds=0.4"])
def test_every_frame_is_due_at_its_pts(tmp_path, store, source):
    durations = (Fraction(1, 10), Fraction(3, 10))
    clip = SynthClip(num_frames=12, timing=Timing(durations_seconds=durations), b_frames=2)
    seconds = [Fraction(k, 30) for k in range(12)] if source else clip.pts_seconds
    source = source or str(write_clip(tmp_path / "clip", clip))
    read = Read(source, store=store, clock=FakeClock(now_ns=7_000))
    list(read)
    due_ns = [7_000 + round((time - seconds[0]) * 10**9) for time in seconds]
    arrivals = [(read_number(frame.pixels), frame.arrived_ns) for frame in read.frames]
    assert arrivals == [*enumerate(due_ns)]
    times = [frame.pts * frame.time_base for frame in read.frames]
    assert [time - times[0] for time in times] == [time - seconds[0] for time in seconds]
    assert read.kinds == ["joined", "ended"]
    assert read.source.base == "schedule"
    assert read.source.name in (source, f"{source}&seed=0")
    read.check_conserved()


@pytest.mark.parametrize("source", [None, "test://?size=96x128&rate=10&seconds=1"])
def test_a_late_reader_gets_every_frame_with_its_due_time(tmp_path, store, source):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=10, frame_rate=TEN))
    clock = FakeClock()
    read = Read(source or str(path), store=store, clock=clock)
    for _ in read:
        clock.advance(1)
    assert [frame.arrived_ns for frame in read.frames] == [k * 10**8 for k in range(10)]
    assert read.waiter.waited_ns == 0


@pytest.fixture
def damaged(tmp_path):
    """Return a video of 24 frames; 5 and 6 are damaged."""
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=24, gop=1))
    return damage_packets(path, tmp_path / "damaged.mp4", ordinals=[5, 6])


def test_a_damaged_frame_ends_the_source_after_the_frames_before_it(damaged, store):
    read = Read(str(damaged), store=store, clock=FakeClock())
    with pytest.raises(DecodeError, match=r"damaged\.mp4"):
        list(read)
    assert [frame.number for frame in read.frames] == [0, 1, 2, 3, 4]


def test_a_skipped_damaged_frame_is_a_drop_and_ends_the_run(damaged, store):
    read = Read(str(damaged), store=store, clock=FakeClock(), on_error="skip")
    list(read)
    assert [loss.index for loss in read.source.losses] == [5, 6]
    assert len(read.items) == 24
    assert [frame.run for frame in read.frames] == [0] * 5 + [1] * 17
    assert [frame.number for frame in read.frames] == [*range(5), *range(7, 24)]
    drops = [(event.words, event.frames) for event in read.events if event.kind == "dropped"]
    assert drops == [("damaged before frame 7", 2)]
    read.check_conserved()


def test_a_missing_file_and_a_playlist_are_errors(tmp_path, store):
    playlist = tmp_path / "list.m3u8"
    playlist.write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    with pytest.raises(OpenError, match=r"cannot open no\.mp4: no such file"):
        list(Read("no.mp4", store=store))
    with pytest.raises(OpenError, match="an HLS playlist"):
        list(Read(str(playlist), store=store))


def test_a_pattern_without_seconds_is_endless():
    read = Read("test://?size=32x32&rate=1000", clock=FakeClock())
    frames = iter(read)
    for _ in range(2000):
        next(frames)
    read.waiter.wake()
    with pytest.raises(Cancelled):
        next(frames)


@pytest.mark.parametrize("size", [(32, 32), (97, 131), (720, 1280)])
def test_frame_numbers_are_readable_at_any_size(size):
    source = PatternSource(PatternAddress(size=size))
    for number in (0, 1, 63, 64, 65_535):
        assert read_number(source.draw(number)) == number


def test_the_pattern_moves_and_depends_on_the_seed():
    source, other = (PatternSource(PatternAddress(size=(96, 128), seed=seed)) for seed in (0, 1))
    assert not np.array_equal(source.draw(0)[80:], source.draw(1)[80:])
    assert not np.array_equal(source.draw(0)[80:], other.draw(0)[80:])
    assert np.array_equal(source.draw(7), source.draw(7))


@pytest.fixture
def index(tmp_path, store):
    clip = SynthClip(num_frames=5, frame_rate=TEN, b_frames=1)
    return open_index(write_clip(tmp_path / "clip", clip), store)


def frames_of(*indexes, **options):
    clock = FakeClock(now_ns=7_000)
    return list(LoadGenerator(indexes, **options).frames(0, Waiter(clock))), clock


def test_the_loop_restarts_as_another_run(index):
    frames, _ = frames_of(index, num_frames=12)
    assert [read_number(frame.pixels) for frame in frames] == [*range(5), *range(5), 0, 1]
    assert [frame.number for frame in frames] == list(range(12))
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 5 + [2] * 2
    assert [frame.arrived_ns for frame in frames] == [7_000 + k * 10**8 for k in range(12)]


def test_the_schedule_can_be_faster_slower_or_delayed(index):
    def due_ms(**options):
        frames, clock = frames_of(index, num_frames=4, **options)
        assert clock.now_ns() == frames[-1].arrived_ns, "it waited until the last frame was due"
        return [(frame.arrived_ns - 7_000) / 10**6 for frame in frames]

    assert due_ms(speed=2.0) == [0, 50, 100, 150]
    assert due_ms(speed=0.5) == [0, 200, 400, 600]
    assert due_ms(delay_seconds=0.04) == [0, 140, 240, 340]


def test_at_full_speed_the_generator_never_waits(index):
    assert LoadGenerator([index], num_frames=9, speed=None).base == "full_speed"
    frames, clock = frames_of(index, num_frames=9, speed=None)
    assert (len(frames), clock.now_ns()) == (9, 7_000)


def test_several_videos_alternate_in_their_own_sizes(index, tmp_path, store):
    clip = SynthClip(num_frames=3, frame_rate=TEN, size=(96, 192))
    wide = open_index(write_clip(tmp_path / "wide", clip), store)
    frames, _ = frames_of(index, wide, num_frames=10)
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 3 + [2] * 2
    assert frames[5].pixels.shape == (96, 192, 3)
    assert frames[8].pixels.shape == frames[0].pixels.shape


def test_a_frame_is_not_decoded_before_it_is_due(index):
    clock = FakeClock()
    frames = LoadGenerator([index], num_frames=3).frames(0, Waiter(clock))
    next(frames)
    assert clock.now_ns() == 0, "the next frame is not decoded yet"
    next(frames)
    assert clock.now_ns() == 10**8
    frames.close()


def test_a_damaged_frame_is_an_error_with_its_index(damaged, store):
    with pytest.raises(DecodeError, match=r"frame 5 of .*damaged\.mp4 is damaged; give an und"):
        frames_of(open_index(damaged, store), num_frames=24)
