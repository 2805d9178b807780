"""Flags and random access of packets, before they are decoded."""

import pytest

from forked import in_a_fork
from headrace import StreamIndex
from headrace.testing.synth import SynthClip
from headrace.video import nal
from headrace.video.random_access import (
    DISPOSABLE,
    HIDDEN,
    KEYFRAME,
    RandomAccess,
    classify_keyframe,
    packet_flags_reader,
)
from headrace.video.random_access import MAY_HAVE_PARAMETER_SETS as HAS_SETS
from media import read_packets

EXACT = b"\x06\x06\x01\xc4\x80"  # recovery_frame_cnt 0, exact_match_flag 1, broken_link_flag 0
SLOW = b"\x06\x06\x02\x0a\x28"  # recovery_frame_cnt 9, exact
ROUGH = b"\x06\x06\x01\x84\x80"  # exact_match_flag 0
BROKEN = b"\x06\x06\x01\xe4\x80"  # broken_link_flag 1
NAMED = b"\x06\x05\x04abcd\x80"  # another kind of SEI
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
        ("mjpeg", b"", RandomAccess.GUARANTEED),
        ("cinepak", b"\0\0\0\0", RandomAccess.UNVERIFIED),
        ("vc1", b"\0\0\0\0", RandomAccess.UNVERIFIED),
    ],
)
def test_codecs_are_classified_by_their_bitstream(codec, data, expected):
    assert classify_keyframe(codec, memoryview(data), 0, is_intra_only=codec == "mjpeg") == expected


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
def test_keyframes_of_clips_are_classified(kind, expected, scanned):
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
        (HAS_SETS, "h264", [b"\x67\x42", b"\x65\x88"], True),
        (HAS_SETS, "h264", [b"\x65\x88", b"\x67\x42"], False),
        (HAS_SETS, "hevc", [b"\x42\x01", b"\x26\x01"], True),
        (HAS_SETS, "hevc", [b"\x26\x01", b"\x42\x01"], False),
    ],
)
def test_nal_units_give_the_packet_flags(flag, codec, nals, is_set):
    """Droppable: unreferenced. Parameter sets count before the first slice."""
    for length in (0, 1, 2, 4):
        found = packet_flags_reader(codec, length)(_joined(nals, length), flag == HAS_SETS)
        assert bool(found & flag) is is_set
        assert bool(found & KEYFRAME) or flag == DISPOSABLE


@pytest.mark.parametrize(
    ("flag", "codec", "packet", "is_marked", "is_set"),
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
def test_packet_flags_have_hidden_and_keyframe(flag, codec, packet, is_marked, is_set):
    """The container's flag has no effect."""
    assert bool(packet_flags_reader(codec, 0)(memoryview(packet), is_marked) & flag) is is_set


def test_half_the_frames_of_a_clip_with_b_frames_are_disposable(written):
    glance = packet_flags_reader("h264", 4)
    packets = read_packets(written("h264_b_frames"))
    found = [glance(memoryview(packet.payload), False) for packet in packets]
    assert 20 < sum(flags & DISPOSABLE > 0 for flags in found) < 40


SPS = b"\0\0\1\x67\x42\0\x1e"
MANY = 100_000


@pytest.mark.parametrize(
    ("size", "packet"), [(0, SPS * MANY), (2, (b"\0\4" + SPS[3:]) * MANY)], ids=["codes", "lengths"]
)
def test_a_packet_of_parameter_sets_alone_is_read_once(size, packet):
    """Copying each up to the end of the packet would take 35 GB and end the fork."""

    def check():
        sets = list(nal.parameter_sets("h264", memoryview(packet), size))
        nal.preamble("h264", memoryview(packet), size)
        return [len(each.unit) for each in sets] == [len(SPS) if size == 0 else 6] * MANY

    assert in_a_fork(check)


@pytest.mark.parametrize(("count", "one_codec"), [(3, False), (5_000, True)])
def test_recorded_parameter_sets_are_bounded(written, tmp_path, count, one_codec):
    """The current sets are stored per keyframe, with a limit in bytes."""
    content = written(SynthClip(container="h264", num_frames=24, gop=12)).read_bytes()
    second = content.index(SPS[:4], content.index(SPS[:4]) + 1)
    numbers = range(0x111111, 0x111111 + count)
    sets = b"".join(b"\0\0\1\x68\x11" + number.to_bytes(3) + b"\x81" for number in numbers)
    path = tmp_path / "sets.h264"
    path.write_bytes(content[:second] + sets + content[second:])
    index = StreamIndex.scan(path)
    assert len(index) == 24
    assert index.needs_one_codec == one_codec
    assert len(index.parameter_sets) < 1 << 17


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg2video", "mpeg4", "vp8", "vp9", "av1"])
def test_random_bytes_are_unverified(codec):
    for junk in (b"", b"\0", b"\0\0\1", b"\0\0\0\1", b"\xff" * 9, b"\0\0\1\x06\x06"):
        found = classify_keyframe(codec, memoryview(junk), 0, is_intra_only=False)
        assert found <= RandomAccess.SIGNALED
        for length_size in (0, 4):
            assert not packet_flags_reader(codec, length_size)(memoryview(junk), False) & KEYFRAME
