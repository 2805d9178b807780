"""Clips and neighbours by time, in real files of every rate: right times and pixels."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from headrace import DeltaFrames, SequentialFrames, StreamIndex
from headrace.sampling.clip_samplers import RandomClips, SegmentClips, UniformClips
from headrace.testing.synth import SynthClip, Timing, write_clip
from loaders.videos import PlainFrames, samples

RATES = ["15", "24000/1001", "25", "30000/1001", "50", "60"]
UNEVEN = tuple(Fraction(each, 1000) for each in (17, 33, 34, 16, 50, 100, 33))


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """90 frames or more of each rate, in MP4 and in Matroska, which rounds to milliseconds."""
    folder = tmp_path_factory.mktemp("rates")
    usual = {"num_frames": 90, "size": (48, 64)}
    clips = [
        SynthClip(gop=20, frame_rate=Fraction(rate), container=kind, **usual)
        for rate in RATES
        for kind in ("mp4", "mkv")
    ]
    clips.append(SynthClip(gop=20, timing=Timing(durations_seconds=UNEVEN), **usual))
    clips.append(SynthClip(timing=Timing(start_seconds=Fraction(7, 10)), **usual))
    return [write_clip(folder / f"rate-{number}", clip) for number, clip in enumerate(clips)]


@pytest.fixture(scope="module")
def plain(videos):
    return PlainFrames(videos)


@pytest.fixture
def clips_of(loader):
    """Return a function: batches of clips by a sampler."""
    usual = {"batch_size": 4, "prefetch_next_epoch": False}
    return lambda clips, files=None, **more: loader(
        "clips", files, clips=clips, **{**usual, **more}
    )


@pytest.mark.parametrize(
    "clips",
    [RandomClips(num_frames=8, fps=8, seed=2), UniformClips(num_clips=2, num_frames=6, fps=12)],
    ids=repr,
)
def test_frames_are_those_shown_at_the_rate_asked_for(videos, plain, clips_of, clips):
    indexes = [StreamIndex.scan(str(file)) for file in videos]
    for batch in clips_of(clips):
        assert torch.equal(batch.frames, plain.of(batch))
        assert not batch.is_pad.any()
        for video, index, shown in samples(batch, "video", "index", "pts_seconds"):
            seconds = np.array(shown)
            moments = seconds[0] + np.arange(clips.num_frames) / float(clips.fps)
            tick = float(indexes[video].info.time_base)
            until = seconds + indexes[video].duration[np.array(index)] * tick
            assert (seconds <= moments + tick + 1e-6).all()
            assert (moments < until + 1e-9).all()


def test_a_clip_at_the_rate_of_its_file_has_frame_after_frame(videos, clips_of):
    for rate, pair in zip(RATES, zip(videos[::2], videos[1::2], strict=True), strict=False):
        batches = clips_of(RandomClips(num_frames=40, fps=rate), pair, batch_size=2)
        assert (torch.cat([batch.index.diff() for batch in batches]) == 1).all(), rate


def test_neighbours_in_time_are_those_of_the_frame(plain, clips_of):
    deltas = (-0.2, -1 / 30, 0.0, 0.1)
    for batch in clips_of(DeltaFrames(delta_seconds=deltas, sampling=SequentialFrames(stride=30))):
        assert torch.equal(batch.frames, plain.of(batch))
        away = batch.pts_seconds - batch.pts_seconds[:, 2:3]
        late = away - torch.tensor(deltas)
        shown = ~batch.is_pad
        assert (late[shown] <= 0.001 + 1e-6).all()
        assert (late[shown] > -0.1 - 1e-6).all()
        assert batch.is_pad[batch.index[:, 2] == 0, 0].all()
        assert not batch.is_pad[:, 2].any()


def test_spread_frames_are_exact_too(plain, clips_of):
    batches = clips_of(SegmentClips(num_segments=5))
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in batches)
