"""Colours come out as they went in, whatever matrix, range and depth they were stored with."""

from contextlib import closing

import numpy as np
import pytest
from av.video.frame import VideoFrame

from headrace.decode.convert import FrameConverter
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.errors import DecodeError
from headrace.testing.synth import BARS, KINDS, read_bars, write_clip
from headrace.video.shape import FrameShape, Orientation
from headrace.video.stream_index import StreamIndex


@pytest.mark.parametrize("kind", ["bt601", "bt709", "bt709_full", "bt2020"])
def test_tagged_colours_come_out_as_they_went_in(tmp_path, kind):
    index = StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind]))
    with closing(PyavDecoder(index)) as decoder:
        [(_, frame)] = decoder.run(DecodeJob((3,)))
    assert frame.dtype == np.uint8
    assert np.abs(read_bars(frame) - BARS).max() <= 4


@pytest.mark.parametrize("layout", ["rgb", "yuv420"])
def test_a_matrix_that_cannot_be_converted_is_named(layout):
    """8 is YCgCo, which swscale refuses."""
    frame = VideoFrame(64, 48, "yuv420p")
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    frame.colorspace = 8
    shape = FrameShape(size=(32, 32), layout=layout)
    with pytest.raises(DecodeError, match=r"of odd\.mp4 cannot .* from yuv420p, colour matrix 8:"):
        FrameConverter(shape, Orientation(), "odd.mp4").convert(frame, None)
