"""What a packet tells before it is decoded, and how far it is believed."""

import pytest

from headrace.video.packet_flags import (
    DISPOSABLE,
    HIDDEN,
    KEYFRAME,
    MAY_HAVE_PARAMETER_SETS,
    packet_flags_reader,
)
from headrace.video.random_access import RandomAccess, classify_keyframe
from media import read_packets

EXACT = b"\x06\x06\x01\xc4\x80"  # recovery_frame_cnt 0, exact_match_flag 1, broken_link_flag 0
SLOW = b"\x06\x06\x02\x0a\x28"  # recovery_frame_cnt 9, exact
ROUGH = b"\x06\x06\x01\x84\x80"  # exact_match_flag 0
BROKEN = b"\x06\x06\x01\xe4\x80"  # broken_link_flag 1
NAMED = b"\x06\x05\x04abcd\x80"  # an SEI of another kind
SLICE, IDR = b"\x41\x9a", b"\x65\x88"


def _joined(nals, length_size=0):
    units = [n + b"...." for n in nals]
    heads = [len(u).to_bytes(length_size, "big") if length_size else b"\0\0\0\1" for u in units]
    return memoryview(b"".join(head + unit for head, unit in zip(heads, units, strict=True)))


@pytest.mark.parametrize(
    ("codec", "data", "expected"),
    [
        ("h264", _joined([IDR]), RandomAccess.GUARANTEED),
        ("h264", _joined([NAMED, IDR]), RandomAccess.GUARANTEED),
        ("h264", _joined([EXACT, SLICE]), RandomAccess.SIGNALED),
        ("h264", _joined([SLOW, SLICE]), RandomAccess.UNVERIFIED),
        ("h264", _joined([NAMED, EXACT, SLICE]), RandomAccess.SIGNALED),
        ("h264", _joined([ROUGH, SLICE]), RandomAccess.UNVERIFIED),
        ("h264", _joined([BROKEN, SLICE]), RandomAccess.UNVERIFIED),
        ("h264", _joined([NAMED, SLICE]), RandomAccess.UNVERIFIED),
        ("h264", _joined([SLICE]), RandomAccess.UNVERIFIED),
        ("h264", _joined([b"\x06\xff\xff"]), RandomAccess.UNVERIFIED),
        ("hevc", b"\0\0\1\x26\x01...", RandomAccess.GUARANTEED),  # IDR
        ("hevc", b"\0\0\1\x2a\x01...", RandomAccess.GUARANTEED),  # CRA
        ("hevc", b"\0\0\1\x02\x01...", RandomAccess.UNVERIFIED),
        ("mpeg2video", b"\0\0\1\xb3....\0\0\1\0....", RandomAccess.GUARANTEED),
        ("mpeg2video", b"\0\0\1\0....", RandomAccess.SIGNALED),
        ("mpeg4", b"\0\0\1\xb6\0", RandomAccess.SIGNALED),
        ("vp8", b"\x10\0\0\x9d\x01\x2a\x80\0\x60\0", RandomAccess.GUARANTEED),
        ("vp8", b"\x11\0\0", RandomAccess.UNVERIFIED),
        ("vp9", b"\x82\x49\x83", RandomAccess.GUARANTEED),
        ("vp9", b"\x86\0\0", RandomAccess.UNVERIFIED),  # refers to others
        ("vp9", b"\x8a\0\0", RandomAccess.UNVERIFIED),  # shows a frame that exists
        ("av1", b"\x12\0\x32\x01\x10", RandomAccess.GUARANTEED),
        ("av1", b"\x12\0\x32\x01\x30", RandomAccess.UNVERIFIED),
        ("av1", b"\x32\x80\x80\x80\x80\x80\x80\x80\x80\x80", RandomAccess.UNVERIFIED),
        ("theora", b"\0\0\0\0", RandomAccess.INTRA),
        ("cinepak", b"\0\0\0\0", RandomAccess.UNVERIFIED),
        ("vc1", b"\0\0\0\0", RandomAccess.UNVERIFIED),
    ],
)
def test_codecs_are_believed_as_far_as_they_promise_by_their_own_marks(codec, data, expected):
    assert classify_keyframe(codec, memoryview(data), 0, is_intra_only=False) == expected


def test_a_codec_without_references_is_certain_everywhere():
    assert (
        classify_keyframe("mjpeg", memoryview(b""), 0, is_intra_only=True)
        == RandomAccess.GUARANTEED
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("h264", {RandomAccess.GUARANTEED}),
        ("h264_open_gop", {RandomAccess.GUARANTEED, RandomAccess.SIGNALED}),
        ("hevc_open_gop", {RandomAccess.GUARANTEED}),
        ("vp9", {RandomAccess.GUARANTEED}),
        ("av1", {RandomAccess.GUARANTEED}),
        ("mpeg4", {RandomAccess.GUARANTEED, RandomAccess.SIGNALED}),
        ("mjpeg", {RandomAccess.GUARANTEED}),
    ],
)
def test_clips_say_what_their_keyframes_are(kind, expected, scanned):
    index = scanned(kind)
    assert {RandomAccess(each) for each in index.gop_random_access} == expected
    assert index.gop_random_access[0] == RandomAccess.GUARANTEED


@pytest.mark.parametrize(
    ("flag", "codec", "nals", "is_set"),
    [
        (DISPOSABLE, "h264", [b"\x06\x05", b"\x01\x9a"], True),
        (DISPOSABLE, "h264", [b"\x01\x9a", b"\x41\x9a"], True),
        (DISPOSABLE, "h264", [b"\x06\x05", b"\x41\x9a"], False),
        (DISPOSABLE, "h264", [b"\x65\x88"], False),
        (DISPOSABLE, "hevc", [b"\x00\x01"], True),
        (DISPOSABLE, "hevc", [b"\x02\x01"], False),
        (DISPOSABLE, "hevc", [b"\x00\x02"], False),
        (DISPOSABLE, "hevc", [b"\x02\x01", b"\x00\x01"], False),
        (DISPOSABLE, "vp9", [b"\x82\x49"], False),
        (MAY_HAVE_PARAMETER_SETS, "h264", [b"\x67\x42", b"\x65\x88"], True),
        (MAY_HAVE_PARAMETER_SETS, "h264", [b"\x65\x88", b"\x67\x42"], False),
        (MAY_HAVE_PARAMETER_SETS, "hevc", [b"\x42\x01", b"\x26\x01"], True),
        (MAY_HAVE_PARAMETER_SETS, "hevc", [b"\x26\x01", b"\x42\x01"], False),
    ],
)
@pytest.mark.parametrize("length_size", [0, 1, 2, 4])
def test_units_of_a_packet_say_what_it_is(flag, codec, nals, is_set, length_size):
    """Nothing refers to a droppable one; parameter sets count before the first slice."""
    found = packet_flags_reader(codec, length_size)(
        _joined(nals, length_size), flag == MAY_HAVE_PARAMETER_SETS
    )
    assert bool(found & flag) is is_set
    assert bool(found & KEYFRAME) or flag == DISPOSABLE


@pytest.mark.parametrize(
    ("flag", "codec", "packet", "said", "is_set"),
    [
        (HIDDEN, "vp8", b"\x10\0\0", False, False),
        (HIDDEN, "vp8", b"\0\0\0", False, True),
        (HIDDEN, "vp9", b"\x86\0\0", False, False),
        (HIDDEN, "vp9", b"\x84\0\0", False, True),
        (HIDDEN, "vp9", b"\x88\0\0", False, False),
        (HIDDEN, "h264", b"\0\0\0", False, False),
        (KEYFRAME, "h264", b"\0\0\0\1\x41\x9a..", True, True),
        (KEYFRAME, "h264", b"\0\0\0\1\x65\x88..", False, False),
        (KEYFRAME, "hevc", b"\0\0\0\1\x02\x01..", True, False),
        (KEYFRAME, "hevc", b"\0\0\0\1\x02\x01..\0\0\1\x26\x01..", False, True),
        (KEYFRAME, "mpeg4", b"\0\0\1\xb6\x00", False, True),
        (KEYFRAME, "mpeg4", b"\0\0\1\xb6\x40", True, False),
        (KEYFRAME, "av1", b"\x12\0", True, True),
    ],
)
def test_a_packet_says_whether_it_is_shown_and_corrects_the_flag_of_the_container(
    flag, codec, packet, said, is_set
):
    assert bool(packet_flags_reader(codec, 0)(memoryview(packet), said) & flag) is is_set


def test_half_the_frames_of_a_clip_with_b_frames_are_droppable(written):
    glance = packet_flags_reader("h264", 4)
    found = [
        glance(memoryview(packet.payload), False)
        for packet in read_packets(written("h264_b_frames"))
    ]
    assert 20 < sum(flags & DISPOSABLE > 0 for flags in found) < 40


@pytest.mark.parametrize(
    "junk", [b"", b"\0", b"\0\0\1", b"\0\0\0\1", b"\xff" * 9, b"\0\0\1\x06\x06"]
)
@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg2video", "mpeg4", "vp8", "vp9", "av1"])
def test_junk_is_read_without_harm_and_believed_little(codec, junk):
    assert (
        classify_keyframe(codec, memoryview(junk), 0, is_intra_only=False) <= RandomAccess.SIGNALED
    )
    for length_size in (0, 4):
        assert not packet_flags_reader(codec, length_size)(memoryview(junk), False) & KEYFRAME
