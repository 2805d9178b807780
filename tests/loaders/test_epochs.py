"""The steps of a rank, and the look-ahead of a loader inside a budget."""

import re
from functools import partial
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace import ConfigError, Population, ShuffledFrames
from headrace.loaders.epochs import Epochs, Position
from headrace.loaders.frame_loader import max_open_files
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.sampling.decode_cost import lookahead_for
from headrace.sampling.sampler import Shard

POPULATION = Population.of([np.array([5, 5]), np.array([7])])


class Listed:
    """A quarantine of given frames."""

    def __init__(self, *frames):
        self.frames = frames

    def __len__(self):
        return len(self.frames)

    def is_bad(self, frames):
        return np.isin(frames, self.frames)


def epochs(batch_size=4, *, rank=0, ranks=1, drop_last=False, bad=(), population=POPULATION):
    shard = Shard(rank=rank, ranks=ranks, remainder="drop" if drop_last else "repeat")
    plan = {"batch_size": batch_size, "shard": shard, "drop_last": drop_last, "seed": 0}
    samples = {"sampling": ShuffledFrames(), "population": population, "quarantine": Listed(*bad)}
    return Epochs(**samples, **plan)


@given(
    batch_size=st.integers(1, 40),
    ranks=st.integers(1, 4),
    drop_last=st.booleans(),
    slot=st.integers(0, 16),
)
def test_ranks_step_together_and_end_where_the_next_epoch_begins(
    batch_size, ranks, drop_last, slot
):
    assume(batch_size <= 17 // ranks or not drop_last)
    start = Position(epoch=3, offset=slot)
    steps = [
        list(epochs(batch_size, rank=r, ranks=ranks, drop_last=drop_last).steps(start, 4))
        for r in range(ranks)
    ]
    assert len({len(each) for each in steps}) == 1
    for together in zip(*steps, strict=True):
        assert len({step.after for step in together}) == 1
        assert len({len(step.slots) for step in together}) == 1
    if steps[0]:
        assert steps[0][-1].after == Position(epoch=4)
        delivered = [step.after.offset for step in steps[0][:-1]]
        assert delivered == sorted(set(delivered))


def test_going_on_from_any_step_gives_the_steps_that_are_left():
    def said(steps):
        return [(step.slots.tolist(), step.frames.tolist()) for step in steps]

    whole = list(epochs().steps(Position(), 2))
    for number, step in enumerate(whole):
        assert said(epochs().steps(step.after, 2)) == said(whole[number + 1 :])


def test_epochs_go_on_without_end():
    steps = list(islice(epochs().steps(Position()), 12))
    assert [step.epoch for step in steps] == [0] * 5 + [1] * 5 + [2] * 2


def test_a_bad_sample_is_replaced_and_the_others_stay():
    plain, replaced = epochs(), epochs(bad=(3, 9))
    for a, b in zip(plain.steps(Position(), 5), replaced.steps(Position(), 5), strict=True):
        bad = np.isin(a.frames, (3, 9))
        assert not np.isin(b.frames, (3, 9)).any()
        assert (a.frames[~bad] == b.frames[~bad]).all()


def test_substitutes_are_uniform_over_good_frames():
    """4 of 17 are good, a thousand times: counts of each, and of each quarter, within 5 sigma."""
    places = np.arange(17_000)
    each = epochs(
        bad=places[~np.isin(places % 17, (2, 6, 11, 16))],
        population=Population.of([np.full(1000, 17)]),
    )
    drawn = each.samples(0, places)[0]
    counts = np.bincount(drawn % 17, minlength=17)
    assert set(np.flatnonzero(counts)) == {2, 6, 11, 16}
    for parts in (counts[[2, 6, 11, 16]], np.bincount(drawn // 4250)):
        assert np.abs(parts - 4250).max() < 5 * np.sqrt(17_000 * 3 / 16)


@pytest.mark.parametrize("ranks", [1, 2, 20])
def test_a_batch_that_no_epoch_fills_holds_all_of_it(ranks):
    """Each rank has one batch, of the same size, and each sample counts once."""
    whole = [list(epochs(40, rank=rank, ranks=ranks).steps(Position(), 2)) for rank in range(ranks)]
    for epoch in range(2):
        steps = [of_rank[epoch] for of_rank in whole]
        assert {step.after for step in steps} == {Position(epoch=epoch + 1)}
        assert {len(step.slots) for step in steps} == {-(-17 // ranks)}
        counted = np.concatenate([step.frames[~step.is_repeated] for step in steps])
        assert sorted(counted) == list(range(17))


def test_the_rest_of_an_epoch_is_one_batch_of_a_larger_size():
    begun = next(epochs(4).steps(Position()))
    left, following = islice(epochs(40).steps(begun.after), 2)
    assert left.slots.tolist() == list(range(4, 17))
    assert following.slots.tolist() == list(range(17))


GOPS = np.full(400, 30)
WINDOW = partial(LookaheadWindow.of, GOPS, frame_bytes=196_608, batch_frames=128)


@given(
    batches=st.integers(3, 10_000),
    batch_frames=st.integers(1, 300),
    frame_bytes=st.integers(1, 10**6),
    gops=st.lists(st.integers(1, 300), min_size=1, max_size=50),
)
def test_a_window_and_two_batches_stay_inside_the_budget(batches, batch_frames, frame_bytes, gops):
    budget = batches * batch_frames * frame_bytes
    sizes = {"frame_bytes": frame_bytes, "batch_frames": batch_frames}
    window = LookaheadWindow.of(np.array(gops), memory_budget=budget, **sizes)
    assert window.held_bytes + 2 * batch_frames * frame_bytes <= budget
    assert 0 <= window.later_frames + batch_frames <= window.held_bytes // frame_bytes
    assert window.lookahead >= batch_frames


def test_the_look_ahead_is_the_widest_that_is_expected_to_fit():
    window = WINDOW(memory_budget=2**30)
    assert window.lookahead == lookahead_for(GOPS, int(0.95 * window.later_frames))
    assert window.held_bytes == 2**30 - 256 * 196_608
    # Where everything fits, four epochs are enough.
    assert WINDOW(memory_budget=2**40).lookahead == 4 * 12_000


def test_empty_epochs_are_refused(refused):
    refused("epochs")
    assert epochs(8, ranks=2, drop_last=True).num_steps() == 1


def test_codecs_are_set_aside_up_to_a_quarter_of_the_budget():
    of = partial(WINDOW, memory_budget=1000 * 100, frame_bytes=100, batch_frames=10)
    windows = [of(codec_bytes=codec_bytes).held_bytes for codec_bytes in (0, 2_000, 10**9)]
    assert windows == [98_000, 96_000, 73_000]


@pytest.mark.parametrize("codec_bytes", [0, 5_000, 10**9])
def test_the_size_in_the_error_is_enough(codec_bytes):
    """Three batches of 2 frames of half a MiB take 3 MiB."""
    of = partial(WINDOW, frame_bytes=2**19, codec_bytes=codec_bytes, batch_frames=2)
    with pytest.raises(ConfigError, match="MiB are needed") as refused:
        of(memory_budget=2**20)
    needed = float(re.search(r"codecs: ([\d.]+) MiB", str(refused.value))[1])
    of(memory_budget=int(needed * 2**20) + 600)
    with pytest.raises(ConfigError):
        of(memory_budget=int(needed * 2**20) - 2_000)


@pytest.mark.parametrize(
    ("budget", "files"), [(1, 1), (2**20, 1), (2**28, 22), (2**30, 89), (2**31, 128), (2**40, 128)]
)
def test_open_files_take_up_to_a_sixteenth_of_the_budget(budget, files):
    assert max_open_files(budget) == files
