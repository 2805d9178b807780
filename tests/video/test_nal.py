"""What a packet says before it is decoded."""

import pytest

from headrace.testing.synth import KINDS, write_clip
from headrace.video import nal
from media import read_packets


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
    assert nal.is_hidden(codec, memoryview(bytes([header, 0, 0]))) is is_hidden


@pytest.mark.parametrize(
    ("codec", "nals", "is_droppable"),
    [
        ("h264", [b"\x06\x05", b"\x01\x9a"], True),
        ("h264", [b"\x06\x05", b"\x41\x9a"], False),
        ("h264", [b"\x65\x88"], False),
        ("hevc", [b"\x00\x01"], True),
        ("hevc", [b"\x02\x01"], False),
        ("hevc", [b"\x00\x02"], False),
        ("vp9", [b"\x82\x49"], False),
    ],
)
@pytest.mark.parametrize("length_size", [0, 1, 2, 4])
def test_only_a_frame_nothing_refers_to_is_droppable(codec, nals, is_droppable, length_size):
    units = [n + b"...." for n in nals]
    heads = [len(u).to_bytes(length_size, "big") if length_size else b"\0\0\0\1" for u in units]
    joined = b"".join(head + unit for head, unit in zip(heads, units, strict=True))
    assert nal.is_droppable(codec, memoryview(joined), length_size) is is_droppable


def test_half_the_frames_of_a_clip_with_b_frames_are_droppable(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["h264_b_frames"])
    droppable = [nal.is_droppable("h264", memoryview(p.payload), 4) for p in read_packets(path)]
    assert 20 < sum(droppable) < 40


@pytest.mark.parametrize("junk", [b"", b"\0", b"\0\0\1", b"\0\0\0\1", b"\xff" * 9])
@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4", "vp8", "vp9", "av1"])
def test_junk_is_read_without_harm(codec, junk):
    view = memoryview(junk)
    assert nal.is_droppable(codec, view, 4) in (True, False)
    assert nal.is_hidden(codec, view) in (True, False)
    assert nal.is_keyframe(codec, view, 4, said=False) is False
