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


def inside(chunk, wanted):
    return [n for n in sorted(wanted) if chunk.start <= n < chunk.stop]


@given(
    wanted=st.sets(st.integers(0, 119)), most=st.integers(1, 500), frame_cost=st.integers(0, 200)
)
def test_every_wanted_frame_is_in_one_chunk(index, wanted, most, frame_cost):
    found = chunks(index, sorted(wanted), most=float(most * PIXELS), frame_cost=frame_cost * PIXELS)
    frames = [inside(chunk, wanted) for chunk in found]
    assert [n for each in frames for n in each] == sorted(wanted)
    assert [len(each) for each in frames] == [chunk.frames for chunk in found]


@given(wanted=st.sets(st.integers(0, 119)), most=st.integers(1, 500))
def test_no_gop_is_in_two_chunks_where_decoding_is_most_of_the_work(index, wanted, most):
    found = chunks(index, sorted(wanted), most=float(most * PIXELS), frame_cost=2 * PIXELS)
    gops = [{index.gop_of(n) for n in inside(chunk, wanted)} for chunk in found]
    assert sum(map(len, gops)) == len(set().union(*gops))


def test_chunks_cost_the_same_but_for_a_gop(index):
    costs = [chunk.cost for chunk in chunks(index, range(120), most=100.0 * PIXELS)]
    assert len(costs) == 5
    [gop] = {chunk.cost for chunk in chunks(index, range(7))}
    assert max(costs) - min(costs) <= gop


def test_what_is_decoded_for_a_frame_now_and_then_is_counted_up_to_it(index):
    found = chunks(index, [0, 9, 70])
    assert sum(chunk.decoded for chunk in found) == 1 + 3 + 1


@pytest.fixture(scope="module")
def one_gop(tmp_path_factory):
    clip = SynthClip(num_frames=100, size=(64, 96), gop=100, b_frames=2)
    return StreamIndex.scan(write_clip(tmp_path_factory.mktemp("chunks") / "one", clip))


def test_a_gop_is_cut_where_most_of_its_work_is_behind_the_decoder(one_gop):
    """Into pieces that cost the same, and together about an eighth more than it whole."""
    [whole] = chunks(one_gop, range(100), frame_cost=40 * PIXELS, most=1e9)
    cut = chunks(one_gop, range(100), frame_cost=40 * PIXELS, most=100.0 * PIXELS)
    costs = [chunk.cost for chunk in cut]
    assert len(cut) == 10
    assert max(costs) < 1.1 * min(costs)
    assert 1 < sum(costs) / whole.cost < 1.2
    assert [chunk.decoded for chunk in cut] == [chunk.stop for chunk in cut]


@pytest.mark.parametrize(("frame_cost", "most"), [(1, 1), (40, 4000)])
def test_a_gop_stays_whole_that_is_mostly_decoded_or_costs_little(one_gop, frame_cost, most):
    given = {"frame_cost": frame_cost * PIXELS, "most": float(most * PIXELS)}
    assert len(chunks(one_gop, range(100), **given)) == 1


def test_nothing_wanted_is_no_chunk(index):
    assert chunks(index, []) == []


def test_names_tell_chunks_apart_and_sort_in_order(index):
    names = [chunk.name for chunk in chunks(index, range(120))]
    assert names == sorted(set(names))
    assert names[0] == "00002-00000000-00000014"
