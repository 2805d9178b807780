"""Every recipe makes a file that opens, the same each time, and that is what its name says."""

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from headrace.testing.damage import keyframe_ordinals
from headrace.testing.synth import read_number
from headrace.testing.synth_recipes import RECIPES, write_recipe
from media import read_packets, rgb

CLEAN = [
    name
    for name in RECIPES
    if not any(word in name for word in ("_cut_", "_flipped_", "_lost_", "_444_", "_without_"))
]
"""Recipes of which every frame carries a number."""


Written = Callable[[str], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write a recipe, once for all tests of this file."""
    folder = tmp_path_factory.mktemp("recipes")
    paths: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in paths:
            paths[name] = write_recipe(name, folder)
        return paths[name]

    return write


def decode(path: Path) -> tuple[list[av.VideoFrame], int]:
    """Every frame, whatever errors come between, and how many errors there were."""
    frames: list[av.VideoFrame] = []
    errors = 0
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            try:
                frames += packet.decode()
            except av.error.InvalidDataError:
                errors += 1
    return frames, errors


def numbers_of(frames: list[av.VideoFrame]) -> list[int | None]:
    numbers: list[int | None] = []
    for frame in frames:
        try:
            numbers.append(read_number(rgb(frame)))
        except ValueError:
            numbers.append(None)
    return numbers


def sizes_of(frames: list[av.VideoFrame]) -> list[tuple[int, int]]:
    """Sizes in the order they come, each once for a run of frames."""
    sizes = [(frame.height, frame.width) for frame in frames]
    return [size for place, size in enumerate(sizes) if place == 0 or sizes[place - 1] != size]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_file_that_opens(name: str, written: Written) -> None:
    assert written(name).name == f"{name}.{RECIPES[name].container}"
    assert len(read_packets(written(name))) >= 24


@pytest.mark.parametrize("name", list(RECIPES)[::4])
def test_the_same_recipe_is_the_same_file(name: str, written: Written, tmp_path: Path) -> None:
    assert write_recipe(name, tmp_path).read_bytes() == written(name).read_bytes()


SEVERAL = ("two_", "begins", "sets_told_once")
"""In the names of those that are made of more than one clip, or lack their beginning."""


@pytest.mark.parametrize("name", [n for n in CLEAN if not any(word in n for word in SEVERAL)])
def test_a_clean_recipe_carries_its_numbers_in_order(name: str, written: Written) -> None:
    frames, errors = decode(written(name))
    assert errors == 0
    assert numbers_of(frames) == list(range(len(frames)))
    assert len(frames) >= 45


@pytest.mark.parametrize("name", [n for n in RECIPES if "two_sizes" in n or "_and_sizes" in n])
def test_frames_change_their_size_on_the_way(name: str, written: Written) -> None:
    frames, errors = decode(written(name))
    assert errors == 0
    assert sizes_of(frames) == [(96, 128), (64, 96)]


def test_pictures_refer_to_others_of_another_size(written: Written) -> None:
    frames, errors = decode(written("vp9_scaled_references_webm"))
    assert (errors, sizes_of(frames)) == (0, [(96, 128), (64, 96)])
    frames, errors = decode(written("av1_scaled_references_webm"))
    assert (errors, len(sizes_of(frames))) == (0, 10)


def test_two_descriptions_are_both_in_use(written: Written) -> None:
    path = written("h264_two_descriptions_mp4")
    assert path.read_bytes().count(b"avcC") == 2
    frames, errors = decode(path)
    assert (errors, numbers_of(frames)) == (0, [*range(48), *range(48)])


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
def test_a_cut_file_begins_with_what_nothing_can_decode(
    name: str, first_number: int, written: Written
) -> None:
    path = written(name)
    frames, _ = decode(path)
    expected = list(range(first_number, first_number + len(frames)))
    assert numbers_of(frames) == expected
    is_inside = "_inside_" in name or "_before_" in name
    assert (keyframe_ordinals(path)[0] > 0) == is_inside


@pytest.mark.parametrize("name", ["h264_held_times_ts", "h264_held_times_mp4"])
def test_only_each_third_time_differs(name: str, written: Written) -> None:
    times = [packet.pts for packet in read_packets(written(name))]
    assert (len(times), len(set(times))) == (180, 60)


def test_two_of_three_times_are_missing(written: Written) -> None:
    packets = read_packets(written("h264_missing_times_ts"))
    assert [packet.pts is None for packet in packets] == [False, True, True] * 60


def test_every_sample_of_h263_is_called_a_keyframe(written: Written) -> None:
    path = written("h263_every_sample_sync_3gp")
    frames, _ = decode(path)
    assert keyframe_ordinals(path) == tuple(range(60))
    assert sum(frame.pict_type == 1 for frame in frames) == 5


def test_an_old_build_is_decoded_by_another_rule(written: Written) -> None:
    """A decoder that never saw the first packet makes other pictures, without an error."""
    path = written("h264_old_build_mp4")
    start = keyframe_ordinals(path)[1]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoder = av.CodecContext.create("h264", "r")
        decoder.extradata = stream.codec_context.extradata
        packets = [packet for packet in container.demux(stream) if packet.size]
        later = [frame for packet in packets[start:] for frame in decoder.decode(packet)]
        later += decoder.decode(None)
    whole, errors = decode(path)
    assert (errors, len(later)) == (0, len(whole) - start)
    pairs = zip(later, whole[start:], strict=True)
    same = [np.array_equal(fresh.to_ndarray(), told.to_ndarray()) for fresh, told in pairs]
    assert sum(same) < len(same) / 4


def test_an_intra_only_picture_is_no_keyframe(written: Written) -> None:
    path = written("vp9_begins_intra_only_webm")
    frames, errors = decode(path)
    assert keyframe_ordinals(path)[0] == 15
    assert (errors, numbers_of(frames)) == (0, list(range(15, 60)))


def test_references_from_before_the_beginning_are_missed(written: Written) -> None:
    frames, errors = decode(written("vp9_begins_without_references_webm"))
    assert errors == 14
    assert numbers_of(frames) == [15, *range(30, 60)]


def test_a_shown_picture_may_be_a_packet_of_two_bytes(written: Written) -> None:
    packets = read_packets(written("vp9_show_existing_keyframes_webm"))
    assert len(packets) == 64
    assert sum(len(packet.payload) == 2 for packet in packets) == 4


@pytest.mark.parametrize("name", ["mpeg2_fields_mpg", "mpeg2_fields_ts", "mpeg2_fields_m2v"])
def test_a_packet_holds_two_fields(name: str, written: Written) -> None:
    path = written(name)
    picture_start = b"\x00\x00\x01\x00"
    assert {p.payload.count(picture_start) for p in read_packets(path)} == {2}
    frames, _ = decode(path)
    assert all(frame.interlaced_frame for frame in frames)


@pytest.mark.parametrize("name", ["hevc_two_views_ts", "hevc_two_views_mp4"])
def test_frames_of_two_views_carry_what_the_binding_does_not_know(
    name: str, written: Written
) -> None:
    frames, _ = decode(written(name))
    with pytest.raises(ValueError, match="29 is not a valid"):
        list(frames[0].side_data)
