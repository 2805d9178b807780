"""Colours come out as they went in, whatever matrix, range and depth they were stored with."""

from contextlib import closing

import numpy as np
import pytest

from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.testing.synth import BARS, KINDS, read_bars, write_clip
from headrace.video.stream_index import StreamIndex


@pytest.mark.parametrize("kind", ["bt601", "bt709", "bt709_full", "bt2020"])
def test_tagged_colours_come_out_as_they_went_in(tmp_path, kind):
    index = StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind]))
    with closing(PyavDecoder(index)) as decoder:
        [(_, frame)] = decoder.run(DecodeJob((3,)))
    assert frame.dtype == np.uint8
    assert np.abs(read_bars(frame) - BARS).max() <= 4
