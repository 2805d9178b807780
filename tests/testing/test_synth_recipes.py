"""Recipes and draws give files that open, the same each time, with their names' properties."""

from collections import Counter
from itertools import pairwise
from random import Random

import av
import numpy as np
import pytest

from headrace.testing.damage import keyframe_ordinals
from headrace.testing.synth_containers import CODECS_IN
from headrace.video.stream_index import StreamIndex
from media import read_frames, read_packets
from testing.reading import decode
from tests.kit.synth_draw import Draw, draw_clip, write_draw
from tests.kit.synth_draw_clip import draw_synth_clip
from tests.kit.synth_recipes import RECIPES, write_recipe

UNCLEAN = ("_cut_", "_flipped_", "_lost_", "_444_", "_without_")
"""Parts of names of recipes whose frames do not all show a number."""
SEVERAL = ("two_", "begins", "sets_told_once")
"""Parts of names of recipes of several clips, or without their start."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_file_that_opens(name, written):
    assert written(name).name == f"{name}.{RECIPES[name].container}"
    assert len(read_packets(written(name))) >= 24


@pytest.mark.parametrize("name", list(RECIPES)[::4])
def test_the_same_recipe_is_the_same_file(name, written, tmp_path):
    assert write_recipe(name, tmp_path).read_bytes() == written(name).read_bytes()


@pytest.mark.parametrize(
    "name", [name for name in RECIPES if not any(word in name for word in UNCLEAN + SEVERAL)]
)
def test_a_clean_recipe_carries_its_numbers_in_order(name, written):
    found = decode(written(name))
    assert (found.errors, found.numbers) == (0, list(range(len(found.frames))))
    assert len(found.frames) >= 45


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in RECIPES if "two_sizes" in name or "_and_sizes" in name),
        "vp9_scaled_references_webm",
    ],
)
def test_frames_change_their_size(name, written):
    found = decode(written(name))
    assert (found.errors, found.sizes) == (0, [(96, 128), (64, 96)])


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("h264_two_descriptions_mp4", [*range(48), *range(48)]),
        ("vp9_begins_intra_only_webm", [*range(15, 60)]),
    ],
)
def test_frames_carry_the_numbers_of_their_parts(name, numbers, written):
    found = decode(written(name))
    assert (found.errors, found.numbers) == (0, numbers)


def test_each_recipe_has_its_property(written):
    assert len(decode(written("av1_scaled_references_webm")).sizes) == 10
    assert decode(written("av1_scaled_references_webm")).errors == 0
    assert written("h264_two_descriptions_mp4").read_bytes().count(b"avcC") == 2
    assert keyframe_ordinals(written("vp9_begins_intra_only_webm"))[0] == 15
    references = decode(written("vp9_begins_without_references_webm"))
    assert (references.errors, references.numbers) == (14, [15, *range(30, 60)])
    packets = read_packets(written("vp9_show_existing_keyframes_webm"))
    assert len(packets) == 64
    assert sum(len(packet.payload) == 2 for packet in packets) == 4
    packets = read_packets(written("h264_missing_times_ts"))
    assert [packet.pts is None for packet in packets] == [False, True, True] * 60
    assert {b.pts - a.pts for a, b in pairwise(packets[::3])} == {9000}
    path = written("h263_every_sample_sync_3gp")
    assert keyframe_ordinals(path) == tuple(range(60))
    assert sum(frame.pict_type == 1 for frame in decode(path).frames) == 5


@pytest.mark.parametrize(
    ("name", "first_number"),
    [
        ("h264_cut_at_open_gop_mp4", 15),
        ("h264_cut_inside_open_gop_mp4", 30),
        ("h264_cut_before_open_gop_mp4", 30),
        ("hevc_cut_at_open_gop_mp4", 15),
        ("mpeg2_cut_at_open_gop_ts", 12),
    ],
)
def test_a_cut_file_starts_with_undecodable_packets(name, first_number, written):
    numbers = decode(written(name)).numbers
    assert numbers == list(range(first_number, first_number + len(numbers)))
    is_inside = "_inside_" in name or "_before_" in name
    assert (keyframe_ordinals(written(name))[0] > 0) == is_inside


@pytest.mark.parametrize("name", ["h264_held_times_ts", "h264_held_times_mp4"])
def test_only_each_third_time_differs(name, written):
    packets = read_packets(written(name))
    times = [packet.pts for packet in packets]
    assert times == [times[0] + place // 3 * (times[3] - times[0]) for place in range(180)]
    assert name.endswith("mp4") or [packet.dts for packet in packets] == times


def test_an_old_encoder_build_is_decoded_differently(written):
    """A decoder without the first packet gives other pictures, without an error."""
    path = written("h264_old_build_mp4")
    start = keyframe_ordinals(path)[1]
    decoder = av.CodecContext.create("h264", "r")
    with av.open(str(path)) as container:
        decoder.extradata = container.streams.video[0].codec_context.extradata
    packets = [av.Packet(packet.payload) for packet in read_packets(path)[start:]]
    later = [frame for packet in [*packets, None] for frame in decoder.decode(packet)]
    whole, errors = decode(path)
    assert (errors, len(later)) == (0, len(whole) - start)
    pairs = zip(later, whole[start:], strict=True)
    same = [np.array_equal(fresh.to_ndarray(), full.to_ndarray()) for fresh, full in pairs]
    assert sum(same) < len(same) / 4


@pytest.mark.parametrize("name", ["mpeg2_fields_mpg", "mpeg2_fields_ts", "mpeg2_fields_m2v"])
def test_a_packet_has_two_fields(name, written):
    picture_start = b"\x00\x00\x01\x00"
    assert {p.payload.count(picture_start) for p in read_packets(written(name))} == {2}
    assert all(frame.interlaced_frame for frame in decode(written(name)).frames)


@pytest.mark.parametrize("name", ["hevc_two_views_ts", "hevc_two_views_mp4"])
def test_stereo_frames_have_unknown_side_data(name, written):
    with pytest.raises(ValueError, match="29 is not a valid"):
        list(decode(written(name)).frames[0].side_data)


@pytest.mark.parametrize("name", [name for name in RECIPES if "sets_told_once" in name])
def test_later_keyframes_need_earlier_parameter_sets(name, written):
    index = StreamIndex.scan(written(name))
    assert len(read_frames(written(name))) == len(index) == 96
    has_sets = [bool(index.parameter_sets_before(gop)) for gop in range(index.num_gops)]
    second = has_sets.index(True)
    assert 4 <= second < index.num_gops - 1
    assert all(has_sets[second:])


def draws(count):
    return [draw_clip(Random(seed)) for seed in range(count)]


@pytest.mark.parametrize("seed", range(40))
def test_a_draw_always_writes_the_same_file(seed, tmp_path):
    draw = draw_clip(Random(seed))
    path = write_draw(tmp_path / "drawn", draw)
    assert path == tmp_path / f"drawn.{draw.clip.container}"
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert context.codec.canonical_name == draw.clip.codec.replace("h263p", "h263")
    if seed % 4 == 0:
        assert write_draw(tmp_path / "again", draw).read_bytes() == path.read_bytes()


def test_a_draw_depends_on_the_seed_and_its_name_on_the_draw():
    assert draws(20) == draws(20)
    assert len({draw.name for draw in draws(200)}) == 200
    assert not any(set(" /") & set(draw.name) for draw in draws(500))
    clip = draw_synth_clip(Random(0))
    draw = Draw(clip=clip, rewrite="held_times", start_ordinal=7, flipped_ordinals=(3, 9))
    assert draw.name.endswith("-held_times-cut7-flipped3,9")
    assert draw.is_damaged


def test_draws_cover_codecs_containers_and_structures():
    drawn = draws(3000)
    clips = [draw.clip for draw in drawn]
    assert {clip.codec for clip in clips} >= {"h264", "hevc", "mpeg2video", "av1", "svq1", "rv10"}
    assert {clip.container for clip in clips} == set(CODECS_IN) - {"dv"}
    assert {clip.structure for clip in clips} == {
        *(None, "b_pyramid", "intra_refresh", "hidden_packets", "interlaced")
    }
    assert {clip.b_frames for clip in clips} >= {0, 1, 2, 3, 4, 8}
    assert {draw.rewrite for draw in drawn} == {
        *(None, "held_times", "missing_times", "every_sample_sync", "show_existing", "intra_only"),
        "no_index",
    }
    shares = Counter()
    for draw in drawn:
        shares["cut"] += draw.start_ordinal > 0
        shares["damaged"] += draw.is_damaged
        shares["two sizes"] += draw.second_size is not None
        shares["open"] += draw.clip.open_gop
        shares["late"] += draw.clip.timing.start_seconds > 0
        shares["uneven"] += bool(draw.clip.timing.durations_seconds)
    assert min(shares.values()) > 30
