"""From wanted frames to stretches, chunks of equal cost and parts of batches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError
from headrace.planning.chunks import GopRange, chunks_of, split_batches, split_ranges, split_video
from headrace.testing.synth import SynthClip

PIXELS = 64 * 96


@pytest.fixture(scope="module")
def index(scanned):
    return scanned(SynthClip(num_frames=120, size=(64, 96), gop=7, b_frames=2))


def chunks(index, wanted, **given):
    asked = {"frame_cost": 3 * PIXELS, "max_cost": 60 * PIXELS} | given
    return chunks_of(2, index, np.array(wanted, np.int64), **asked)


def inside(chunk, wanted):
    return [n for n in sorted(wanted) if chunk.start <= n < chunk.stop]


@given(
    wanted=st.sets(st.integers(0, 119)), most=st.integers(1, 500), frame_cost=st.integers(0, 200)
)
def test_every_wanted_frame_is_in_one_chunk(index, wanted, most, frame_cost):
    costs = {"max_cost": float(most * PIXELS), "frame_cost": frame_cost * PIXELS}
    found = chunks(index, sorted(wanted), **costs)
    frames = [inside(chunk, wanted) for chunk in found]
    assert [n for each in frames for n in each] == sorted(wanted)
    assert [len(each) for each in frames] == [chunk.frames for chunk in found]


@given(wanted=st.sets(st.integers(0, 119)), most=st.integers(1, 500))
def test_no_gop_is_in_two_chunks_where_decoding_is_most_of_the_work(index, wanted, most):
    found = chunks(index, sorted(wanted), max_cost=float(most * PIXELS), frame_cost=2 * PIXELS)
    gops = [{index.gop_of(n) for n in inside(chunk, wanted)} for chunk in found]
    assert sum(map(len, gops)) == len(set().union(*gops))


def test_chunks_cost_the_same_but_for_a_gop(index):
    costs = [chunk.cost for chunk in chunks(index, range(120), max_cost=100.0 * PIXELS)]
    assert len(costs) == 5
    [gop] = {chunk.cost for chunk in chunks(index, range(7))}
    assert max(costs) - min(costs) <= gop


def test_decoding_for_a_sparse_frame_is_counted_up_to_it(index):
    found = chunks(index, [0, 9, 70])
    assert sum(chunk.decoded for chunk in found) == 1 + 3 + 1


@pytest.fixture(scope="module")
def one_gop(scanned):
    return scanned(SynthClip(num_frames=100, size=(64, 96), gop=100, b_frames=2))


def test_a_gop_is_cut_where_most_of_its_work_is_behind_the_decoder(one_gop):
    """Into pieces that cost the same, and together about an eighth more than it whole."""
    [whole] = chunks(one_gop, range(100), frame_cost=40 * PIXELS, max_cost=1e9)
    cut = chunks(one_gop, range(100), frame_cost=40 * PIXELS, max_cost=100.0 * PIXELS)
    costs = [chunk.cost for chunk in cut]
    assert len(cut) == 10
    assert max(costs) < 1.1 * min(costs)
    assert 1 < sum(costs) / whole.cost < 1.2
    assert [chunk.decoded for chunk in cut] == [chunk.stop for chunk in cut]


@pytest.mark.parametrize(("frame_cost", "most"), [(1, 1), (40, 4000)])
def test_a_gop_stays_whole_that_is_mostly_decoded_or_costs_little(one_gop, frame_cost, most):
    given = {"frame_cost": frame_cost * PIXELS, "max_cost": float(most * PIXELS)}
    assert len(chunks(one_gop, range(100), **given)) == 1


def test_chunk_names_are_unique_and_sorted_and_no_request_is_no_chunk(index):
    assert chunks(index, []) == []
    names = [chunk.name for chunk in chunks(index, range(120))]
    assert names == sorted(set(names))
    assert names[0] == "00002-00000000-00000014"


@given(wanted=st.sets(st.integers(0, 119), min_size=1), at_least=st.integers(1, 70))
def test_every_wanted_frame_is_in_one_stretch_no_gop_in_two_and_none_is_jumped_over(
    index, wanted, at_least
):
    asked = np.array(sorted(wanted), np.int64)
    plan = list(split_ranges(3, index, asked, at_least=at_least))
    assert [n for stretch in plan for n in stretch.wanted] == asked.tolist()
    gops = [sorted({index.gop_of(n) for n in stretch.wanted}) for stretch in plan]
    assert sum(map(len, gops)) == len(set().union(*gops))
    assert all(of == list(range(of[0], of[-1] + 1)) for of in gops)
    assert all(stretch.video == 3 for stretch in plan)


def test_short_gops_are_kept_together_until_they_are_worth_a_seek(index):
    plan = list(split_video(0, index, at_least=16))
    assert [len(stretch.wanted) for stretch in plan][:-1] == [21] * (len(plan) - 1)


def test_a_stride_takes_every_nth_frame(index):
    wanted = [n for part in split_video(0, index, stride=13) for n in part.wanted]
    assert wanted == list(range(0, 120, 13))
    with pytest.raises(ConfigError, match="stride must be an integer >= 1, got 0"):
        split_video(0, index, stride=0)


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    batch_size=st.integers(1, 50),
    most=st.integers(1, 50),
)
def test_every_frame_has_one_place_in_batches_of_the_size(lengths, batch_size, most):
    total, spans = sum(lengths), pairwise(np.cumsum([0, *lengths]).tolist())
    ranges = [GopRange(video=0, index=None, wanted=tuple(range(*span))) for span in spans]
    plan = list(split_batches(ranges, total, batch_size=batch_size, max_frames=most))
    assert [len(stretch.wanted) for stretch, _ in plan] == lengths
    for stretch, parts in plan:
        assert [n for part in parts for n in part.wanted] == list(stretch.wanted)
    parts = [part for _, parts in plan for part in parts]
    assert max(len(part.wanted) for part in parts) <= most
    firsts = [part.batch * batch_size + part.first for part in parts]
    places = [
        at + k for at, part in zip(firsts, parts, strict=True) for k in range(len(part.wanted))
    ]
    assert places == list(range(total))
    for part in parts:
        assert part.batch_frames == min(batch_size, total - part.batch * batch_size)
    full = [part.batch for part in parts if part.is_last]
    assert full == list(range(-(-total // batch_size)))
