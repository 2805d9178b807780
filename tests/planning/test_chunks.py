"""A video in chunks of equal cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.planning.chunks import chunks_of
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex

PIXELS = 64 * 96


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    clip = SynthClip(num_frames=120, size=(64, 96), gop=7, b_frames=2)
    return StreamIndex.scan(write_clip(tmp_path_factory.mktemp("chunks") / "clip", clip))


def chunks(index, wanted, **given):
    asked = {"frame_cost": 3 * PIXELS, "most": 60 * PIXELS} | given
    return chunks_of(2, index, np.array(wanted, np.int64), **asked)


@given(wanted=st.sets(st.integers(0, 119)), most=st.integers(1, 500))
def test_every_wanted_frame_is_in_one_chunk_and_no_gop_in_two(index, wanted, most):
    found = chunks(index, sorted(wanted), most=float(most * PIXELS))
    inside = [[n for n in sorted(wanted) if chunk.start <= n < chunk.stop] for chunk in found]
    assert [n for frames in inside for n in frames] == sorted(wanted)
    assert [len(frames) for frames in inside] == [chunk.frames for chunk in found]
    gops = [{index.gop_of(n) for n in frames} for frames in inside]
    assert sum(map(len, gops)) == len(set().union(*gops))


def test_chunks_cost_the_same_but_for_a_gop(index):
    costs = [chunk.cost for chunk in chunks(index, range(120), most=100.0 * PIXELS)]
    assert len(costs) == 5
    [gop] = {chunk.cost for chunk in chunks(index, range(7), most=1.0)}
    assert max(costs) - min(costs) <= gop


def test_what_is_decoded_for_a_frame_now_and_then_is_counted_up_to_it(index):
    found = chunks(index, [0, 9, 70])
    assert sum(chunk.decoded for chunk in found) == 1 + 3 + 1


def test_a_gop_is_not_cut_however_little_a_chunk_should_cost(index):
    assert len(chunks(index, range(119), most=1.0)) == 119 / 7


def test_nothing_wanted_is_no_chunk(index):
    assert chunks(index, []) == []


def test_names_tell_chunks_apart_and_sort_in_order(index):
    names = [chunk.name for chunk in chunks(index, range(120))]
    assert names == sorted(set(names))
    assert names[0] == "00002-00000000-00000014"
