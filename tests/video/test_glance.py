"""What a packet says before it is decoded."""

import pytest

from headrace.testing.synth import KINDS, write_clip
from headrace.video.glance import DROPPABLE, HIDDEN, KEYFRAME, MAY_TELL, glance_of
from media import read_packets


def _joined(nals, length_size):
    units = [n + b"...." for n in nals]
    heads = [len(u).to_bytes(length_size, "big") if length_size else b"\0\0\0\1" for u in units]
    return memoryview(b"".join(head + unit for head, unit in zip(heads, units, strict=True)))


@pytest.mark.parametrize(
    ("codec", "header", "is_hidden"),
    [
        ("vp8", 0x10, False),
        ("vp8", 0x00, True),
        ("vp9", 0b1000_0110, False),
        ("vp9", 0b1000_0100, True),
        ("vp9", 0b1000_1000, False),
        ("h264", 0x00, False),
    ],
)
def test_a_frame_that_is_never_shown_says_so(codec, header, is_hidden):
    found = glance_of(codec, 0)(memoryview(bytes([header, 0, 0])), False)
    assert bool(found & HIDDEN) is is_hidden


@pytest.mark.parametrize(
    ("codec", "nals", "is_droppable"),
    [
        ("h264", [b"\x06\x05", b"\x01\x9a"], True),
        ("h264", [b"\x01\x9a", b"\x41\x9a"], True),
        ("h264", [b"\x06\x05", b"\x41\x9a"], False),
        ("h264", [b"\x65\x88"], False),
        ("hevc", [b"\x00\x01"], True),
        ("hevc", [b"\x02\x01"], False),
        ("hevc", [b"\x00\x02"], False),
        ("hevc", [b"\x02\x01", b"\x00\x01"], False),
        ("vp9", [b"\x82\x49"], False),
    ],
)
@pytest.mark.parametrize("length_size", [0, 1, 2, 4])
def test_only_a_frame_nothing_refers_to_is_droppable(codec, nals, is_droppable, length_size):
    found = glance_of(codec, length_size)(_joined(nals, length_size), False)
    assert bool(found & DROPPABLE) is is_droppable


@pytest.mark.parametrize(
    ("codec", "nals", "may_tell"),
    [
        ("h264", [b"\x67\x42", b"\x65\x88"], True),
        ("h264", [b"\x65\x88", b"\x67\x42"], False),
        ("hevc", [b"\x42\x01", b"\x26\x01"], True),
        ("hevc", [b"\x26\x01", b"\x42\x01"], False),
    ],
)
@pytest.mark.parametrize("length_size", [0, 4])
def test_parameter_sets_count_before_the_first_slice(codec, nals, may_tell, length_size):
    found = glance_of(codec, length_size)(_joined(nals, length_size), True)
    assert bool(found & MAY_TELL) is may_tell
    assert found & KEYFRAME


@pytest.mark.parametrize(
    ("codec", "packet", "said", "is_keyframe"),
    [
        ("h264", b"\0\0\0\1\x41\x9a..", True, True),
        ("h264", b"\0\0\0\1\x65\x88..", False, False),
        ("hevc", b"\0\0\0\1\x02\x01..", True, False),
        ("hevc", b"\0\0\0\1\x02\x01..\0\0\1\x26\x01..", False, True),
        ("mpeg4", b"\0\0\1\xb6\x00", False, True),
        ("mpeg4", b"\0\0\1\xb6\x40", True, False),
        ("av1", b"\x12\0", True, True),
    ],
)
def test_the_flag_of_the_container_is_believed_where_the_parser_corrects_it(
    codec, packet, said, is_keyframe
):
    assert bool(glance_of(codec, 0)(memoryview(packet), said) & KEYFRAME) is is_keyframe


def test_half_the_frames_of_a_clip_with_b_frames_are_droppable(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["h264_b_frames"])
    glance = glance_of("h264", 4)
    found = [glance(memoryview(packet.payload), False) for packet in read_packets(path)]
    assert 20 < sum(flags & DROPPABLE > 0 for flags in found) < 40


@pytest.mark.parametrize("junk", [b"", b"\0", b"\0\0\1", b"\0\0\0\1", b"\xff" * 9])
@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4", "vp8", "vp9", "av1"])
@pytest.mark.parametrize("length_size", [0, 4])
def test_junk_is_read_without_harm(codec, junk, length_size):
    assert not glance_of(codec, length_size)(memoryview(junk), False) & KEYFRAME
