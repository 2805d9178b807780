"""Steps of a rank, and the checks that ranks of torch.distributed agree."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import distributed

from headrace import CameraStreamDataset, ConfigError, Population, ShuffledFrames
from headrace.loaders.epochs import Epochs, Position, agreement, shard_of
from headrace.runtime.spawned_processes import run_ranks
from headrace.sampling.sampler import Shard
from loaders.cameras.clips import write_layout

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


def test_empty_epochs_are_refused(refused):
    refused("epochs")
    assert epochs(8, ranks=2, drop_last=True).num_steps() == 1


def ask_rank(task, ready):
    """Join a group of two; return the rank, the number of ranks, and what is said of each set."""
    met, rank, opens = task
    distributed.init_process_group("gloo", init_method=met, rank=rank, world_size=2)
    ready()
    shard = shard_of(None, None, drop_last=False)
    found = shard.rank, shard.ranks, [said_of(each) for each in opens]
    distributed.destroy_process_group()
    return found


def said_of(opens):
    """Return the message of the check of a folder of cameras, or of what a loader has opened.

    That is a checksum, None if the loader cannot be made, and how much it left out.
    """
    try:
        if isinstance(opens, Path):
            CameraStreamDataset(opens / "index.json", skip_bad=True).close()
        else:
            with agreement(is_needed=True) as opened:
                if opens[0] is None:
                    raise ConfigError("nothing to read")
                opened.checksum, opened.skipped = opens
    except ConfigError as error:
        return str(error)
    return ""


def test_a_single_rank_has_all_slots_and_needs_no_communication():
    assert not distributed.is_initialized()
    assert shard_of(None, None, drop_last=False).ranks == 1
    with agreement(is_needed=True) as opened:
        opened.checksum = 1
    with pytest.raises(ZeroDivisionError), agreement(is_needed=True):
        raise ZeroDivisionError


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no gloo")
@pytest.mark.usefixtures("forked_ranks")
def test_all_ranks_raise_if_files_differ_or_one_fails_and_others_continue(
    tmp_path,
):
    write_layout(tmp_path / "videos", {"a": 3}).write(tmp_path / "index.json")
    (tmp_path / "nothing").mkdir()
    opened = {
        "other files": [(7, 0), (8, 1)],
        "the same files": [(7, 1), (7, 1)],
        "frames": [(7, 0), (None, 0)],
        "cameras": [tmp_path, tmp_path / "nothing"],
    }
    sets = zip(*opened.values(), strict=True)
    tasks = [(f"file://{tmp_path}/met", rank, of_rank) for rank, of_rank in enumerate(sets)]
    found = run_ranks(ask_rank, tasks, timeout_seconds=120)[0]
    assert [each[:2] for each in found] == [(0, 2), (1, 2)]
    said = dict(zip(opened, zip(*(each[2] for each in found), strict=True), strict=True))
    for each in said["other files"]:
        assert "skipped by rank 0: 0, rank 1: 1;" in each
    assert not torch.cuda.is_initialized()
    assert said["the same files"] == ("", "")
    for kind, words in (("frames", "nothing to read"), ("cameras", "cannot read ")):
        first, second = said[kind]
        assert first.startswith("rank 1 failed to create a loader")
        assert second.startswith(words)
