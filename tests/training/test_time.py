"""Clips and neighbours by time, in real files of every rate: times and pixels are right."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from headrace import Around, ClipLoader, InOrder, RandomClips, SpreadClips, UniformClips
from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip, Timing, write_clip
from headrace.video.stream_index import StreamIndex
from training.videos import PlainFrames

SIZE = (32, 48)
RATES = ["15", "24000/1001", "25", "30000/1001", "50", "60"]
UNEVEN = tuple(Fraction(each, 1000) for each in (17, 33, 34, 16, 50, 100, 33))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """90 frames or more of each rate, in MP4 and in Matroska, which rounds to milliseconds."""
    folder = tmp_path_factory.mktemp("rates")
    clips = [
        SynthClip(num_frames=90, size=(48, 64), gop=20, frame_rate=Fraction(rate), container=kind)
        for rate in RATES
        for kind in ("mp4", "mkv")
    ]
    clips += [
        SynthClip(num_frames=90, size=(48, 64), gop=20, timing=Timing(durations_seconds=UNEVEN)),
        SynthClip(num_frames=90, size=(48, 64), timing=Timing(start_seconds=Fraction(7, 10))),
    ]
    return [write_clip(folder / f"rate-{number}", clip) for number, clip in enumerate(clips)]


@pytest.fixture(scope="module")
def rate_store(tmp_path_factory):
    return IndexStore(tmp_path_factory.mktemp("rate-index"))


@pytest.fixture(scope="module")
def plain_rates(files, rate_store):
    return PlainFrames(files, rate_store, SIZE)


def loader(files, clips, store, batch_size=4):
    options = {"batch_size": batch_size, "size": SIZE, "store": store, "persistent": False}
    return ClipLoader(files, clips=clips, **options)


@pytest.mark.parametrize(
    "clips",
    [RandomClips(num_frames=8, fps=8, seed=2), UniformClips(num_clips=2, num_frames=6, fps=12)],
    ids=repr,
)
def test_frames_are_those_shown_at_the_rate_asked_for(files, rate_store, plain_rates, clips):
    fps = float(clips.fps)
    indexes = [StreamIndex.scan(str(file)) for file in files]
    with loader(files, clips, rate_store) as batches:
        for batch in batches:
            assert torch.equal(batch.frames, plain_rates.of(batch))
            assert not batch.is_pad.any()
            for video, index, seconds in zip(
                batch.video.tolist(), batch.index.numpy(), batch.pts_seconds.numpy(), strict=True
            ):
                moments = seconds[0] + np.arange(clips.num_frames) / fps
                tick = float(indexes[video].info.time_base)
                until = seconds + indexes[video].duration[index] * tick
                assert (seconds <= moments + tick + 1e-6).all()
                assert (moments < until + 1e-9).all()


def test_a_clip_at_the_rate_of_its_file_has_frame_after_frame(files, rate_store):
    for rate, pair in zip(RATES, zip(files[::2], files[1::2], strict=True), strict=False):
        clips = RandomClips(num_frames=40, fps=rate)
        with loader(pair, clips, rate_store, batch_size=2) as batches:
            steps = torch.cat([batch.index.diff() for batch in batches])
        assert (steps == 1).all(), rate


def test_neighbours_in_time_are_those_of_the_frame(files, rate_store, plain_rates):
    deltas = (-0.2, -1 / 30, 0.0, 0.1)
    around = Around(delta_seconds=deltas, sampling=InOrder(stride=30))
    with loader(files, around, rate_store) as batches:
        for batch in batches:
            assert torch.equal(batch.frames, plain_rates.of(batch))
            away = batch.pts_seconds - batch.pts_seconds[:, 2:3]
            late = away - torch.tensor(deltas)
            shown = ~batch.is_pad
            assert (late[shown] <= 0.001 + 1e-6).all()
            assert (late[shown] > -0.1 - 1e-6).all()
            assert batch.is_pad[batch.index[:, 2] == 0, 0].all()
            assert not batch.is_pad[:, 2].any()


def test_spread_frames_are_exact_too(files, rate_store, plain_rates):
    with loader(files, SpreadClips(num_segments=5), rate_store) as batches:
        assert all(torch.equal(batch.frames, plain_rates.of(batch)) for batch in batches)
