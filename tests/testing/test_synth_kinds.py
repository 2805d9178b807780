"""Every kind carries its numbers in order, and is what its name says."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext
from av.video.frame import PictureType

from headrace.testing.synth import BARS, KINDS, read_bars, read_number, write_clip
from headrace.testing.synth_colour import tags_of
from headrace.video.number_code import NUMBERS
from media import PlainPacket, read_frames, read_packets, rgb

Written = Callable[[str], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write a kind, once for all tests of this file."""
    folder = tmp_path_factory.mktemp("kinds")
    paths: dict[str, Path] = {}

    def write(kind: str) -> Path:
        if kind not in paths:
            paths[kind] = write_clip(folder / kind, KINDS[kind])
        return paths[kind]

    return write


def types_of(path: Path) -> str:
    """Picture types in the order shown, a letter each."""
    return "".join(PictureType(frame.pict_type).name for frame in read_frames(path))


def leading_of(packets: list[PlainPacket]) -> list[int]:
    """For each keyframe, how many packets after it in the file are shown before it."""
    keyframes = [place for place, packet in enumerate(packets) if packet.is_keyframe]
    return [sum(p.pts < packets[k].pts for p in packets[k:]) for k in keyframes]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_reading_finds_every_number_in_order(kind: str, written: Written) -> None:
    clip = KINDS[kind]
    look = clip.look
    pictures = [
        rgb(frame, rotation=look.rotation, mirrored=look.mirrored)
        for frame in read_frames(written(kind))
    ]
    assert [read_number(picture) for picture in pictures] == list(range(clip.num_frames))
    assert {picture.shape[:2] for picture in pictures} == {clip.size}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_survive_scaling_down_to_64(kind: str, written: Written) -> None:
    look = KINDS[kind].look
    frames = read_frames(written(kind))[::5]
    small = [
        rgb(f.reformat(64, 64), rotation=look.rotation, mirrored=look.mirrored) for f in frames
    ]
    assert [read_number(picture) for picture in small] == list(range(0, KINDS[kind].num_frames, 5))


@pytest.mark.parametrize("kind", [k for k in KINDS if KINDS[k].container not in ("h264", "avi")])
def test_frames_are_shown_when_the_clip_says(kind: str, written: Written) -> None:
    clip = KINDS[kind]
    frames = read_frames(written(kind))
    shown = [frame.pts * frame.time_base for frame in frames]
    half_a_tick = frames[0].time_base / 2
    for seconds, expected in zip(shown, clip.pts_seconds, strict=True):
        assert abs(seconds - expected) <= half_a_tick


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_is_of_the_codec_and_format_asked_for(kind: str, written: Written) -> None:
    clip = KINDS[kind]
    with av.open(str(written(kind))) as container:
        context = container.streams.video[0].codec_context
        assert context.codec.canonical_name == clip.codec
        is_full = clip.look.colour is not None and clip.look.colour.full_range
        expected = "yuvj420p" if is_full else clip.look.pixel_format
        assert context.pix_fmt == expected


def test_h264_has_no_b_frames_and_closed_gops(written: Written) -> None:
    assert types_of(written("h264")) == ("I" + 11 * "P") * 4


@pytest.mark.parametrize(
    ("kind", "gop_types"),
    [
        ("h264_b_frames", "IBBPBBPBBPBP"),
        ("h264_b_pyramid", "IBBBPBBBPBBBPBBP"),
        ("hevc", "IBBBPBBBPBBP"),
        ("mpeg4", "IBBPBBPBBP"),
    ],
)
def test_closed_gops_hold_b_frames(kind: str, gop_types: str, written: Written) -> None:
    assert types_of(written(kind)).startswith(gop_types + gop_types)
    assert set(leading_of(read_packets(written(kind)))) == {0}


@pytest.mark.parametrize(
    ("kind", "leading"), [("h264_open_gop", 2), ("hevc_open_gop", 3), ("mpeg4_open_gop", 2)]
)
def test_open_gops_have_leading_pictures(kind: str, leading: int, written: Written) -> None:
    first, *others = leading_of(read_packets(written(kind)))
    assert first == 0
    assert others[:3] == [leading] * 3


def test_h264_open_gops_start_without_idr(written: Written) -> None:
    keyframes = [p for p in read_packets(written("h264_open_gop")) if p.is_keyframe]
    assert [5 in h264_nal_types(p.payload) for p in keyframes] == [True, False, False, False]


def test_hevc_open_gops_start_with_cra_and_rasl(written: Written) -> None:
    cra, rasl = 21, (8, 9)
    types = [hevc_nal_types(p.payload) for p in read_packets(written("hevc_open_gop"))]
    starts = [place for place, nals in enumerate(types) if cra in nals]
    assert starts == [9, 21, 33]
    for start in starts:
        assert all(set(nals) & set(rasl) for nals in types[start + 1 : start + 4])


def test_a_b_pyramid_refers_to_b_frames(written: Written) -> None:
    def referred_b_frames(kind: str) -> int:
        types = {f.pts: f.pict_type for f in read_frames(written(kind))}
        b_packets = [p for p in read_packets(written(kind)) if types[p.pts] == PictureType.B]
        return sum(any(nal[0] & 0x60 for nal in nals(p.payload)) for p in b_packets)

    assert referred_b_frames("h264_b_frames") == 0
    assert referred_b_frames("h264_b_pyramid") >= 9


def test_intra_refresh_has_keyframes_that_are_p_frames(written: Written) -> None:
    packets = read_packets(written("h264_intra_refresh"))
    assert [place for place, p in enumerate(packets) if p.is_keyframe] == [0, 12, 24, 36]
    assert types_of(written("h264_intra_refresh")) == "I" + 47 * "P"


def test_the_long_gop_is_250_frames(written: Written) -> None:
    packets = read_packets(written("h264_long_gop"))
    assert [place for place, p in enumerate(packets) if p.is_keyframe] == [0, 250]


def test_one_frame_is_one_packet(written: Written) -> None:
    assert len(read_packets(written("h264_one_frame"))) == 1


@pytest.mark.parametrize("kind", ["mjpeg", "ffv1"])
def test_intra_codecs_have_only_keyframes(kind: str, written: Written) -> None:
    assert all(packet.is_keyframe for packet in read_packets(written(kind)))


@pytest.mark.parametrize(("kind", "hidden"), [("vp8_hidden", 6), ("vp9_hidden", 4)])
def test_hidden_pictures_make_more_packets_than_frames(
    kind: str, hidden: int, written: Written
) -> None:
    assert len(read_packets(written(kind))) == len(read_frames(written(kind))) + hidden


def test_hidden_vp8_pictures_are_referred_to(written: Written) -> None:
    """Without them the frames up to the next keyframe are wrong."""
    with av.open(str(written("vp8_hidden"))) as container:
        decoder = av.CodecContext.create("vp8", "r")
        seen = [
            decoder.decode(av.Packet(bytes(packet)))
            for packet in container.demux(video=0)
            if packet.size and bytes(packet)[0] & 0x10
        ]
    pictures = [rgb(frame) for frames in seen for frame in frames]
    shown = [rgb(frame) for frame in read_frames(written("vp8_hidden"))]
    assert np.array_equal(pictures[4], shown[4])
    assert not np.array_equal(pictures[5], shown[5])


def test_vp9_packs_hidden_pictures_into_superframes(written: Written) -> None:
    with av.open(str(written("vp9"))) as container:
        stream = container.streams.video[0]
        splitter = BitStreamFilterContext("vp9_superframe_split", in_stream=stream)
        packets = [packet for packet in container.demux(stream) if packet.size]
        assert len(packets) == 48
        assert sum(len(splitter.filter(packet)) for packet in packets) > 48


def test_av1_has_hidden_frames(written: Written) -> None:
    with av.open(str(written("av1"))) as container:
        stream = container.streams.video[0]
        splitter = BitStreamFilterContext("av1_frame_split", in_stream=stream)
        packets = [packet for packet in container.demux(stream) if packet.size]
        assert len(packets) == 48
        assert sum(len(splitter.filter(packet)) for packet in packets) > 48


@pytest.mark.parametrize("kind", ["vfr_mp4", "vfr_mkv"])
def test_uneven_durations_are_uneven_and_have_gaps(kind: str, written: Written) -> None:
    frames = read_frames(written(kind))
    times = [frame.pts * frame.time_base for frame in frames]
    steps = {round(float(after - before), 3) for before, after in pairwise(times)}
    assert len(steps) >= 6
    assert 5.0 in steps


@pytest.mark.parametrize(
    ("kind", "start_seconds"),
    [("late_start", 5), ("ts", 1), ("ts_late_start", 31_815), ("ts_negative_start", -5)],
)
def test_the_stream_starts_when_it_says(kind: str, start_seconds: int, written: Written) -> None:
    with av.open(str(written(kind))) as container:
        stream = container.streams.video[0]
        assert stream.start_time * stream.time_base == start_seconds


def test_preroll_is_decoded_and_not_shown(written: Written) -> None:
    packets = read_packets(written("preroll"))
    assert (len(packets), len(read_frames(written("preroll")))) == (53, 48)
    assert [p.pts < 0 for p in packets] == [p.is_discard for p in packets]
    assert sum(p.is_discard for p in packets) == 5
    assert not any(p.is_keyframe for p in packets if p.pts == 0)


def test_preroll_counts_down_from_the_last_number(written: Written) -> None:
    decoder = av.CodecContext.create("h264", "r")
    with av.open(str(written("preroll"))) as container:
        decoder.extradata = container.streams.video[0].codec_context.extradata
    packets = read_packets(written("preroll"))
    decoded = [frame for p in packets for frame in decoder.decode(av.Packet(p.payload))]
    counted = [read_number(rgb(frame)) for frame in decoded[:7]]
    assert counted == [*range(NUMBERS - 5, NUMBERS), 0, 1]


def test_avi_has_no_presentation_times(written: Written) -> None:
    """FFmpeg makes them up: one frame late for MPEG-4, in the order of decoding for H.264."""
    late = read_frames(written("avi_mpeg4"))
    assert [frame.pts for frame in late] == list(range(1, 49))
    shuffled = [frame.pts for frame in read_frames(written("avi_h264"))]
    assert shuffled != sorted(shuffled)


def test_annex_b_has_no_timing_at_all(written: Written) -> None:
    assert {(p.pts, p.dts) for p in read_packets(written("annex_b"))} == {(None, None)}


@pytest.mark.parametrize(
    ("kind", "rotation", "stored"),
    [
        ("rotated_90", 90, (128, 96)),
        ("rotated_180", -180, (96, 128)),
        ("rotated_270", -90, (128, 96)),
        ("mirrored_and_rotated", 90, (128, 96)),
        ("mirrored", -180, (96, 128)),
    ],
)
def test_the_display_matrix_is_in_the_side_data(
    kind: str, rotation: int, stored: tuple[int, int], written: Written
) -> None:
    frame = read_frames(written(kind))[0]
    assert "DISPLAYMATRIX" in frame.side_data
    assert frame.rotation == rotation
    assert (frame.height, frame.width) == stored


def test_only_mirrored_matrices_have_a_negative_determinant(written: Written) -> None:
    def determinant(kind: str) -> int:
        matrix = np.frombuffer(
            bytes(read_frames(written(kind))[0].side_data["DISPLAYMATRIX"]), np.int32
        ).reshape(3, 3)
        return round(np.linalg.det(matrix[:2, :2] / 65_536))

    assert determinant("mirrored") == determinant("mirrored_and_rotated") == -1
    assert determinant("rotated_90") == determinant("rotated_180") == 1


@pytest.mark.parametrize("kind", ["bt601", "bt709", "bt709_full", "bt2020"])
def test_colours_are_tagged_and_come_out_as_they_went_in(kind: str, written: Written) -> None:
    frame = read_frames(written(kind))[0]
    tags = (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range)
    assert tags == tags_of(KINDS[kind].look.colour)
    assert np.abs(read_bars(rgb(frame)) - BARS).max() <= 4


def test_the_wrong_matrix_shows_in_the_bars(written: Written) -> None:
    frame = read_frames(written("bt709"))[0]
    wrong = frame.to_ndarray(format="rgb24", src_colorspace="ITU601")
    assert np.abs(read_bars(wrong) - BARS).max() > 12


def test_the_wrong_range_shows_in_the_bars(written: Written) -> None:
    frame = read_frames(written("bt709_full"))[0]
    untagged = av.VideoFrame.from_ndarray(frame.to_ndarray(), format="yuv420p")
    wrong = untagged.to_ndarray(format="rgb24", src_colorspace="ITU709")
    assert np.abs(read_bars(wrong) - BARS).max() > 8


def nals(payload: bytes) -> list[bytes]:
    """NAL units of an MP4 sample, each behind its length in four bytes."""
    units = []
    while payload:
        stop = 4 + int.from_bytes(payload[:4], "big")
        units.append(payload[4:stop])
        payload = payload[stop:]
    return units


def h264_nal_types(payload: bytes) -> list[int]:
    return [nal[0] & 0x1F for nal in nals(payload)]


def hevc_nal_types(payload: bytes) -> list[int]:
    return [nal[0] >> 1 & 0x3F for nal in nals(payload)]
