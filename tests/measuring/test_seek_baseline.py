"""The baseline returns correct frames at the full cost."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from headrace import DecodeError, FrameDataset, OpenError
from headrace.loaders.video_set import VideoSet
from headrace.measuring.loader_adapters import SeekPerFrame
from headrace.testing.synth import Look, SynthClip, Timing, write_clip
from loaders.videos import CLIPS

SIZE = (32, 48)
UNEVEN = Timing(durations_seconds=(Fraction(1, 25), Fraction(1, 10)))
ODD = [
    SynthClip(num_frames=12, gop=6, look=Look(rotation=90), size=(64, 96)),
    SynthClip(num_frames=12, gop=5, timing=Timing(start_seconds=Fraction(3, 2))),
    SynthClip(num_frames=12, gop=12, b_frames=2, timing=UNEVEN),
]


@pytest.mark.parametrize("size", [SIZE, (128, 128)])
def test_frames_equal_those_of_headrace_bit_for_bit(written, store, size):
    files = [*map(written, [*CLIPS, *ODD])]
    plain = SeekPerFrame(VideoSet.open(files, index_store=store), size)
    with FrameDataset(files, size=size, index_store=store) as frames:
        assert len(plain) == len(frames)
        for number in [*range(0, len(frames), 5), len(frames) - 1]:
            assert torch.equal(plain[number], frames[number]["frame"]), number


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
