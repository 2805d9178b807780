"""Every kind shows its numbers in order and has the properties in its name."""

from itertools import pairwise

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext
from av.video.frame import PictureType

from headrace.testing.synth import BARS, KINDS, read_bars, read_number, write_clip
from headrace.testing.synth_pixels import tags_of
from headrace.video.frame_barcode import NUMBERS
from media import read_frames, read_packets, rgb
from testing.reading import keyframes_of
from tests.kit.synth_wide import WIDE_KINDS

ALL = {**KINDS, **WIDE_KINDS}
IDR, PARAMETER_SET, ACCESS_UNIT = 5, 7, 9
CRA, RASL = 21, {8, 9}


def pictures_of(frames, look):
    return [rgb(frame, rotation=look.rotation, mirrored=look.mirrored) for frame in frames]


def types_of(path):
    """Return picture types in display order, a letter each."""
    return "".join(PictureType(frame.pict_type).name for frame in read_frames(path))


def intra_types_of(path):
    """Return the first picture type, and the number of I."""
    return types_of(path)[0], types_of(path).count("I")


def leading_of(path):
    """Return for each keyframe how many packets after it are shown before it."""
    packets = read_packets(path)
    return [sum(p.pts < packets[k].pts for p in packets[k:]) for k in keyframes_of(path)]


def nals(payload):
    """Return NAL units of an MP4 sample, each after its length of four bytes, or of Annex B."""
    if payload[:3] == b"\0\0\0" and payload[3] == 1:
        return payload.split(b"\0\0\1")[1:]
    units = []
    while payload:
        stop = 4 + int.from_bytes(payload[:4], "big")
        units.append(payload[4:stop])
        payload = payload[stop:]
    return units


def h264_types_of(packet):
    return [nal[0] & 0x1F for nal in nals(packet.payload)]


def have_idr(path):
    """Return whether each keyframe is an IDR."""
    return [IDR in h264_types_of(p) for p in read_packets(path) if p.is_keyframe]


def referred_b_frames_of(path):
    types = {frame.pts: frame.pict_type for frame in read_frames(path)}
    b_packets = [p for p in read_packets(path) if types[p.pts] == PictureType.B]
    return sum(any(nal[0] & 0x60 for nal in nals(p.payload)) for p in b_packets)


def hidden_of(path):
    """Return the number of packets minus that of frames."""
    return len(read_packets(path)) - len(read_frames(path))


def start_of(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream.start_time * stream.time_base


def determinant_of(path):
    matrix = np.frombuffer(bytes(read_frames(path)[0].side_data["DISPLAYMATRIX"]), np.int32)
    return round(np.linalg.det(matrix.reshape(3, 3)[:2, :2] / 65_536))


def turn_of(path):
    """Return the rotation of the display matrix and the stored size."""
    frame = read_frames(path)[0]
    assert "DISPLAYMATRIX" in frame.side_data
    return frame.rotation, (frame.height, frame.width)


def times_of(path):
    return {(packet.pts, packet.dts) for packet in read_packets(path)}


def is_interlaced(path):
    return {bool(frame.interlaced_frame) for frame in read_frames(path)}


@pytest.mark.parametrize(
    ("kind", "fact", "expected"),
    [
        ("h264", types_of, ("I" + 11 * "P") * 4),
        ("h264_intra_refresh", types_of, "I" + 47 * "P"),
        ("h264_intra_refresh", keyframes_of, [0, 12, 24, 36]),
        ("h264_intra_refresh_30", keyframes_of, [0, 30, 60, 90]),
        ("h264_intra_refresh_30", intra_types_of, ("I", 1)),
        ("h264_intra_refresh_b", keyframes_of, [0, 28, 58, 88]),
        ("h264_intra_refresh_b", intra_types_of, ("I", 1)),
        ("h264_long_gop", keyframes_of, [0, 250]),
        ("h264_one_frame", keyframes_of, [0]),
        ("h264_one_frame", hidden_of, 0),
        ("mjpeg", keyframes_of, [*range(48)]),
        ("ffv1", keyframes_of, [*range(48)]),
        ("av1_open_gop", keyframes_of, [0]),
        ("h264_open_gop", have_idr, [True, False, False, False]),
        ("h264_open_pyramid_ts", have_idr, [True, False, False, False]),
        ("h264_b_frames", referred_b_frames_of, 0),
        ("vp8_hidden", hidden_of, 6),
        ("vp9_hidden", hidden_of, 4),
        ("late_start", start_of, 5),
        ("ts", start_of, 1),
        ("ts_late_start", start_of, 31_815),
        ("ts_negative_start", start_of, -5),
        ("annex_b", times_of, {(None, None)}),
        ("rotated_90", turn_of, (90, (128, 96))),
        ("rotated_180", turn_of, (-180, (96, 128))),
        ("rotated_270", turn_of, (-90, (128, 96))),
        ("mirrored_and_rotated", turn_of, (90, (128, 96))),
        ("mirrored", turn_of, (-180, (96, 128))),
        ("mirrored", determinant_of, -1),
        ("mirrored_and_rotated", determinant_of, -1),
        ("rotated_90", determinant_of, 1),
        ("rotated_180", determinant_of, 1),
        ("mpeg2_mpg_interlaced", is_interlaced, {True}),
        ("mpeg2_ts_interlaced", is_interlaced, {True}),
        ("h264_interlaced", is_interlaced, {True}),
    ],
)
def test_a_kind_matches_its_name(kind, fact, expected, written):
    assert fact(written(kind)) == expected


def test_no_name_is_in_both_tables():
    assert set(KINDS) & set(WIDE_KINDS) == set()


@pytest.mark.parametrize("kind", ALL)
def test_a_linear_decode_reads_every_number_in_order(kind, written):
    frames, clip = read_frames(written(kind)), ALL[kind]
    pictures = pictures_of(frames, clip.look)
    assert [read_number(picture) for picture in pictures] == list(range(clip.num_frames))
    assert {picture.shape[:2] for picture in pictures} == {clip.size}
    if kind in KINDS:
        small = pictures_of((frame.reformat(64, 64) for frame in frames[::5]), clip.look)
        assert [read_number(each) for each in small] == list(range(0, clip.num_frames, 5))


@pytest.mark.parametrize("kind", [k for k in KINDS if KINDS[k].container not in ("h264", "avi")])
def test_frames_have_the_clips_times(kind, written):
    frames = read_frames(written(kind))
    for frame, expected in zip(frames, KINDS[kind].pts_seconds, strict=True):
        assert abs(frame.pts * frame.time_base - expected) <= frame.time_base / 2


@pytest.mark.parametrize("kind", ALL)
def test_the_stream_has_the_requested_codec_and_format(kind, written):
    """Both versions of H.263 have one decoder."""
    clip = ALL[kind]
    with av.open(str(written(kind))) as container:
        context = container.streams.video[0].codec_context
        assert context.codec.canonical_name == clip.codec.replace("h263p", "h263")
        is_full = clip.look.colour is not None and clip.look.colour.full_range
        expected = "yuvj420p" if is_full else clip.look.pixel_format
        assert context.pix_fmt == expected or kind in WIDE_KINDS


ENCODINGS = {(clip.codec, clip.container, clip.structure): kind for kind, clip in KINDS.items()}


@pytest.mark.parametrize("kind", ENCODINGS.values())
def test_the_same_clip_is_the_same_file(kind, written, tmp_path):
    assert write_clip(tmp_path / "again", KINDS[kind]).read_bytes() == written(kind).read_bytes()


@pytest.mark.parametrize(
    ("kind", "gop_types"),
    [
        ("h264_b_frames", "IBBPBBPBBPBP"),
        ("h264_b_pyramid", "IBBBPBBBPBBBPBBP"),
        ("hevc", "IBBBPBBBPBBP"),
        ("mpeg4", "IBBPBBPBBP"),
    ],
)
def test_closed_gops_hold_b_frames(kind, gop_types, written):
    assert types_of(written(kind)).startswith(gop_types + gop_types)
    assert set(leading_of(written(kind))) == {0}


@pytest.mark.parametrize(
    ("kind", "leading"), [("h264_open_gop", 2), ("hevc_open_gop", 3), ("mpeg4_open_gop", 2)]
)
def test_open_gops_have_leading_pictures(kind, leading, written):
    assert leading_of(written(kind))[:4] == [0, leading, leading, leading]


@pytest.mark.parametrize("kind", ["mpeg2_mpg_open_gop", "mpeg1_mpg_open_gop", "mpeg2_vob"])
def test_open_gops_of_mpeg_have_leading_pictures(kind, written):
    packets = read_packets(written(kind))
    for start in keyframes_of(written(kind))[1:-1]:
        assert all(packet.pts < packets[start].pts for packet in packets[start + 1 : start + 3])


def test_hevc_open_gops_start_with_cra_and_rasl(written):
    packets = read_packets(written("hevc_open_gop"))
    types = [{nal[0] >> 1 & 0x3F for nal in nals(packet.payload)} for packet in packets]
    starts = [place for place, units in enumerate(types) if CRA in units]
    assert starts == [9, 21, 33]
    for start in starts:
        assert all(units & RASL for units in types[start + 1 : start + 4])


def test_a_b_pyramid_refers_to_b_frames(written):
    assert referred_b_frames_of(written("h264_b_pyramid")) >= 9


def test_hidden_vp8_frames_are_references(written):
    """Without them, frames are wrong up to the next keyframe."""
    decoder = av.CodecContext.create("vp8", "r")
    payloads = [packet.payload for packet in read_packets(written("vp8_hidden"))]
    seen = [decoder.decode(av.Packet(each)) for each in payloads if each[0] & 0x10]
    pictures = [rgb(frame) for frames in seen for frame in frames]
    shown = [rgb(frame) for frame in read_frames(written("vp8_hidden"))]
    assert np.array_equal(pictures[4], shown[4])
    assert not np.array_equal(pictures[5], shown[5])


@pytest.mark.parametrize(
    ("kind", "splitter"), [("vp9", "vp9_superframe_split"), ("av1", "av1_frame_split")]
)
def test_hidden_frames_are_packed_with_shown_ones(kind, splitter, written):
    with av.open(str(written(kind))) as container:
        stream = container.streams.video[0]
        split = BitStreamFilterContext(splitter, in_stream=stream)
        packets = [packet for packet in container.demux(stream) if packet.size]
        assert len(packets) == 48
        assert sum(len(split.filter(packet)) for packet in packets) > 48


@pytest.mark.parametrize("kind", ["vfr_mp4", "vfr_mkv"])
def test_uneven_durations_have_gaps(kind, written):
    times = [frame.pts * frame.time_base for frame in read_frames(written(kind))]
    steps = {round(float(after - before), 3) for before, after in pairwise(times)}
    assert len(steps) >= 6
    assert 5.0 in steps


def test_preroll_is_decoded_not_shown_and_has_the_last_numbers(written):
    packets = read_packets(written("preroll"))
    assert (len(packets), len(read_frames(written("preroll")))) == (53, 48)
    assert [p.pts < 0 for p in packets] == [p.is_discard for p in packets]
    assert sum(p.is_discard for p in packets) == 5
    assert not any(p.is_keyframe for p in packets if p.pts == 0)
    decoder = av.CodecContext.create("h264", "r")
    with av.open(str(written("preroll"))) as container:
        decoder.extradata = container.streams.video[0].codec_context.extradata
    decoded = [frame for p in packets for frame in decoder.decode(av.Packet(p.payload))]
    counted = [read_number(rgb(frame)) for frame in decoded[:7]]
    assert counted == [*range(NUMBERS - 5, NUMBERS), 0, 1]


def test_avi_has_no_presentation_times(written):
    """FFmpeg invents them: a frame late for MPEG-4, in decoding order for H.264."""
    assert [frame.pts for frame in read_frames(written("avi_mpeg4"))] == list(range(1, 49))
    shuffled = [frame.pts for frame in read_frames(written("avi_h264"))]
    assert shuffled != sorted(shuffled)


@pytest.mark.parametrize("kind", ["bt601", "bt709", "bt709_full", "bt2020"])
def test_colors_are_tagged_and_decode_exactly(kind, written):
    frame = read_frames(written(kind))[0]
    tags = (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range)
    assert tags == tags_of(KINDS[kind].look.colour)
    assert np.abs(read_bars(rgb(frame)) - BARS).max() <= 4


def test_the_wrong_matrix_or_range_shows_in_the_bars(written):
    frame, full = (read_frames(written(kind))[0] for kind in ("bt709", "bt709_full"))
    wrong = frame.to_ndarray(format="rgb24", src_colorspace="ITU601")
    assert np.abs(read_bars(wrong) - BARS).max() > 12
    untagged = av.VideoFrame.from_ndarray(full.to_ndarray(), format="yuv420p")
    wrong = untagged.to_ndarray(format="rgb24", src_colorspace="ITU709")
    assert np.abs(read_bars(wrong) - BARS).max() > 8


@pytest.mark.parametrize("kind", ["h264_fragmented", "hevc_fragmented"])
def test_fragments_have_their_own_boxes(kind, written):
    assert written(kind).read_bytes().count(b"moof") >= 4


def test_encoder_options_and_bitstream_filters_reach_the_packets(written):
    [first, *_] = read_packets(written("h264_slices"))
    assert b"cabac=0" in first.payload
    assert b"slices=4" in first.payload
    delimited = read_packets(written("h264_access_units"))
    assert {h264_types_of(packet)[0] for packet in delimited} == {ACCESS_UNIT}
    for packet in read_packets(written("h264_headers_within")):
        assert (h264_types_of(packet)[0] == PARAMETER_SET) == packet.is_keyframe
