"""Crops, sizes, orientations, planes, and the status of frames."""

from fractions import Fraction

import numpy as np
import pytest
from av import VideoFrame
from hypothesis import given
from hypothesis import strategies as st

from headrace.video.content_digest import digest_of, rows_of
from headrace.video.frame_format import Crop, FrameFormat, Orientation, ResizeFit
from headrace.video.frames import FrameBatch
from headrace.video.reference_decode import FrameStatus, ReferenceFrame, ReferenceResult
from headrace.video.stream_index import StreamIndex, undamaged

ORIENTATIONS = [Orientation(t, h, v) for t in (False, True) for h in (False, True) for v in (0, 1)]


ONE = 1 << 16


TURNS = {
    (ONE, 0, 0, ONE): (0, False, True),
    (0, ONE, -ONE, 0): (90, False, True),
    (-ONE, 0, 0, -ONE): (180, False, True),
    (0, -ONE, ONE, 0): (270, False, True),
    (-ONE, 0, 0, ONE): (0, True, True),
    (ONE, 0, 0, -ONE): (180, True, True),
    **dict.fromkeys([(0, 0, 0, 0), (ONE, ONE, -ONE, ONE), (-(2**31), 3, 9, 5)], (0, False, False)),
}
"""Matrix -> its rotation, whether it mirrors, and whether it is exact."""


@pytest.mark.parametrize(("matrix", "expected"), TURNS.items())
def test_a_display_matrix_is_a_rotation_and_a_mirror_or_inexact(matrix, expected):
    a, b, c, d = matrix
    turn = Orientation.from_display_matrix([a, b, 0, c, d, 0, 0, 0, 1 << 30])
    assert (turn.rotation_degrees, turn.is_mirrored, turn.is_exact) == expected


def test_clockwise_rotation_moves_the_left_column_to_the_top():
    turned = Orientation(True, True, False).upright(np.arange(6, dtype=np.uint8).reshape(2, 3, 1))
    assert turned[..., 0].tolist() == [[3, 0], [4, 1], [5, 2]]


@pytest.mark.parametrize("turn", ORIENTATIONS)
def test_stored_inverts_upright(turn):
    frame = np.arange(12, dtype=np.uint8).reshape(2, 6, 1)
    assert np.array_equal(turn.stored(turn.upright(frame)), frame)


@pytest.mark.parametrize("turn", ORIENTATIONS)
@given(data=st.data())
def test_cropping_before_rotation_equals_cropping_after(turn, data):
    height, width = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    frame = np.arange(height * width, dtype=np.uint8).reshape(height, width, 1)
    upright = turn.upright(frame)
    assert upright.shape[:2] == turn.upright_size((height, width))
    top = data.draw(st.integers(0, upright.shape[0] - 1))
    left = data.draw(st.integers(0, upright.shape[1] - 1))
    tall = data.draw(st.integers(1, upright.shape[0] - top))
    wide = data.draw(st.integers(1, upright.shape[1] - left))
    crop = Crop(top=top, left=left, height=tall, width=wide)
    stored = turn.stored_crop(crop, (height, width))
    first = frame[stored.top :, stored.left :][: stored.height, : stored.width]
    after = upright[crop.top :, crop.left :][: crop.height, : crop.width]
    assert np.array_equal(turn.upright(first), after)


def test_a_format_has_its_output_size():
    crop = Crop(top=1, left=2, height=30, width=40)
    assert FrameFormat().output_size((50, 60)) == (50, 60)
    assert FrameFormat(crop=crop).output_size((50, 60)) == (30, 40)
    assert FrameFormat(crop=crop, size=(8, 9)).output_size((50, 60)) == (8, 9)
    fitting = ResizeFit(size=(4, 6), scaled=(8, 6))
    assert FrameFormat(size=(4, 6), fit=fitting).fitting((80, 60)) is fitting


@pytest.mark.parametrize(
    ("scaled", "offset"),
    [((4, 6), (0, 0)), ((4, 6), (-1, 2)), ((2, 3), (1, 1)), ((9, 9), (-3, -2)), ((9, 9), (2, -9))],
)
def test_a_fit_places_the_frame_on_black(scaled, offset):
    pixels = np.arange(1, 1 + scaled[0] * scaled[1], dtype=np.uint8).reshape(scaled)
    expected = np.zeros((4, 6), np.uint8)
    for row in range(4):
        for column in range(6):
            there = row - offset[0], column - offset[1]
            if 0 <= there[0] < scaled[0] and 0 <= there[1] < scaled[1]:
                expected[row, column] = pixels[there]
    out = np.full((4, 6), 99, np.uint8)
    ResizeFit(size=(4, 6), scaled=scaled, offset=offset).place(pixels, out)
    assert np.array_equal(out, expected)


OPEN = object.__new__(StreamIndex)
"""Two GOPs of six frames; frame 5 is shown before the keyframe, 6, and decoded after it."""
vars(OPEN).update(
    packets=12,
    pts=np.arange(12),
    packet_index=np.array([0, 2, 3, 1, 4, 6, 5, 9, 8, 10, 11, 7]),
    is_disposable=np.array([0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0], np.bool_),
    gop_start=np.array([0, 6]),
    gop_packet=np.array([0, 5]),
)


@pytest.mark.parametrize(
    ("came", "reported", "b_pictures", "lost"),
    [
        (12, [], [], []),
        (12, [2], [], [1]),  # unreferenced
        (12, [4], [], [4, 5]),
        (12, [1], [], [1, 2, 3, 4, 5]),
        (12, [0], [], [0, 1, 2, 3, 4, 5]),
        (12, [5], [], [5, 6, 7, 8, 9, 10, 11]),  # a keyframe, and the frame shown before it
        (12, [6], [], [5]),
        (12, [7], [], [7, 8, 9, 10, 11]),
        (12, [1], [3], [3]),  # B-pictures of old codecs affect only themselves
        (9, [], [], [9, 10, 11]),  # missing frames
    ],
)
def test_damage_affects_frames_that_may_refer_to_it(came, reported, b_pictures, lost):
    packets = enumerate(OPEN.packet_index[:came].tolist())
    frames = {packet: ReferenceFrame(packet, 0, n * 7, n in b_pictures) for n, packet in packets}
    seen = ReferenceResult(frames=frames, reported=set(reported))
    expected = {number: number * 7 for number in range(12) if number not in lost}
    assert undamaged(OPEN, seen, 0, 12) == expected


def test_frame_status_is_unknown_until_noted_and_survives_storage():
    frame_status, highest = FrameStatus(5), 2**32 - 1
    assert frame_status.table is None
    assert not any(frame_status.knows(n) or frame_status.is_damaged(n) for n in range(5))
    frame_status.note(1, 4, {1: highest, 3: 33})
    for each in (frame_status, FrameStatus(5, frame_status.table)):
        assert [n for n in range(5) if each.knows(n)] == [1, 2, 3]
        assert [n for n in range(5) if each.is_damaged(n)] == [2]
        found = [each.differs(*known) for known in ((1, highest), (3, 33), (3, 34))]
        assert found == [False, False, True]


FORMATS = ["yuv420p", "yuv420p10le", "yuv444p", "gray", "rgb24", "nv12", "yuyv422", "gbrp", "pal8"]


def picture(width: int, pixel_format: str, value: int = 7) -> VideoFrame:
    """A picture of one value; the bytes after its rows differ each time."""
    frame = VideoFrame(width, 16, pixel_format)
    for plane in frame.planes:
        noise = np.random.default_rng(value).integers(0, 256, plane.buffer_size, np.uint8)
        plane.update(noise.tobytes())
    return frame


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_change_anywhere_changes_the_digest(pixel_format):
    assert digest_of(picture(32, pixel_format)) == digest_of(picture(32, pixel_format))
    assert digest_of(picture(32, pixel_format)) != digest_of(picture(32, pixel_format, 8))
    blank = [VideoFrame(*size, pixel_format) for size in ((32, 16), (16, 32))]
    for frame in blank:
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
    assert digest_of(blank[0]) != digest_of(blank[1]), "the size belongs to it"


def test_row_padding_does_not_change_the_digest():
    frames = []
    for padding in (0, 255):
        frame = VideoFrame(30, 16, "gray")
        rows = np.full((16, frame.planes[0].line_size), padding, np.uint8)
        rows[:, :30] = 9
        frame.planes[0].update(rows.tobytes())
        frames.append(frame)
    assert frames[0].planes[0].line_size > 30
    assert digest_of(frames[0]) == digest_of(frames[1])
    assert rows_of(frames[0].planes[0], 30).shape == (16, 30)


def test_seconds_follow_from_ticks_and_nothing_is_concealed_by_default():
    times = {"pts": np.array([9009, 12012]), "time_base": Fraction(1, 90_000)}
    frames = np.zeros((2, 4, 6, 3), np.uint8)
    batch = FrameBatch(frames=frames, video=0, index=np.array([3, 4]), **times)
    assert batch.pts_seconds.tolist() == pytest.approx([0.1001, 0.1334667])
    assert batch.is_concealed.tolist() == [False, False]
