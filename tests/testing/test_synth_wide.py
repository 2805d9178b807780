"""Every further kind carries its numbers in order too, and is what its name says."""

from collections.abc import Callable
from pathlib import Path

import av
import pytest
from av.video.frame import PictureType

from headrace.testing.synth import KINDS, read_number, write_clip
from headrace.testing.synth_wide import WIDE_KINDS
from media import read_frames, read_packets, rgb

Written = Callable[[str], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write a kind, once for all tests of this file."""
    folder = tmp_path_factory.mktemp("wide")
    paths: dict[str, Path] = {}

    def write(kind: str) -> Path:
        if kind not in paths:
            paths[kind] = write_clip(folder / kind, WIDE_KINDS[kind])
        return paths[kind]

    return write


def keyframes_of(path: Path) -> list[int]:
    return [place for place, packet in enumerate(read_packets(path)) if packet.is_keyframe]


def annex_b_types(payload: bytes) -> list[int]:
    return [unit[0] & 0x1F for unit in payload.split(b"\x00\x00\x01")[1:]]


def test_no_name_is_in_both_tables() -> None:
    assert set(KINDS) & set(WIDE_KINDS) == set()


@pytest.mark.parametrize("kind", WIDE_KINDS)
def test_a_plain_reading_finds_every_number_in_order(kind: str, written: Written) -> None:
    clip = WIDE_KINDS[kind]
    frames = read_frames(written(kind))
    assert [read_number(rgb(frame)) for frame in frames] == list(range(clip.num_frames))
    assert {(frame.height, frame.width) for frame in frames} == {clip.size}


@pytest.mark.parametrize("kind", WIDE_KINDS)
def test_the_stream_is_of_the_codec_asked_for(kind: str, written: Written) -> None:
    with av.open(str(written(kind))) as container:
        context = container.streams.video[0].codec_context
        found = context.codec.canonical_name
    # One decoder reads H.263 in both of its versions.
    assert found == WIDE_KINDS[kind].codec.replace("h263p", "h263")


@pytest.mark.parametrize(
    ("kind", "keyframes"),
    [("h264_intra_refresh_30", [0, 30, 60, 90]), ("h264_intra_refresh_b", [0, 28, 58, 88])],
)
def test_only_the_first_keyframe_of_an_intra_refresh_is_an_idr(
    kind: str, keyframes: list[int], written: Written
) -> None:
    assert keyframes_of(written(kind)) == keyframes
    types = [PictureType(frame.pict_type).name for frame in read_frames(written(kind))]
    assert (types[0], types.count("I")) == ("I", 1)


def test_open_gops_with_a_pyramid_have_one_idr(written: Written) -> None:
    packets = read_packets(written("h264_open_pyramid_ts"))
    types = [annex_b_types(packet.payload) for packet in packets if packet.is_keyframe]
    assert [5 in units for units in types] == [True, False, False, False]


@pytest.mark.parametrize("kind", ["mpeg2_mpg_open_gop", "mpeg1_mpg_open_gop", "mpeg2_vob"])
def test_open_gops_of_mpeg_have_leading_pictures(kind: str, written: Written) -> None:
    packets = read_packets(written(kind))
    for start in keyframes_of(written(kind))[1:-1]:
        assert [packet.pts < packets[start].pts for packet in packets[start + 1 : start + 3]] == [
            True,
            True,
        ]


@pytest.mark.parametrize("kind", ["mpeg2_mpg_interlaced", "mpeg2_ts_interlaced", "h264_interlaced"])
def test_interlaced_frames_say_so(kind: str, written: Written) -> None:
    assert all(frame.interlaced_frame for frame in read_frames(written(kind)))


@pytest.mark.parametrize("kind", ["h264_fragmented", "hevc_fragmented"])
def test_fragments_have_boxes_of_their_own(kind: str, written: Written) -> None:
    assert written(kind).read_bytes().count(b"moof") >= 4


def test_encoder_options_reach_the_encoder(written: Written) -> None:
    [first, *_] = read_packets(written("h264_slices"))
    assert b"cabac=0" in first.payload
    assert b"slices=4" in first.payload


def test_bitstream_filters_reach_the_packets(written: Written) -> None:
    access_unit_delimiter = 9
    for packet in read_packets(written("h264_access_units")):
        assert packet.payload[4] & 0x1F == access_unit_delimiter


def test_headers_lie_within_the_stream_where_asked(written: Written) -> None:
    parameter_set = 7
    packets = read_packets(written("h264_headers_within"))
    assert [p.payload[4] & 0x1F == parameter_set for p in packets] == [
        p.is_keyframe for p in packets
    ]


def test_an_open_gop_of_av1_is_entered_without_a_keyframe(written: Written) -> None:
    assert keyframes_of(written("av1_open_gop")) == [0]
