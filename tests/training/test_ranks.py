"""Ranks under torch.distributed: their share, and whether they opened the same files."""

import pytest
import torch
from torch import distributed

from headrace.runtime.processes import run_together
from headrace.training.ranks import agreement, shard_of
from training.cameras.clips import write_layout
from training.rank_tasks import CamerasTask, RankTask, ask_rank, open_cameras


def _ask(folder, opened):
    tasks = [
        RankTask(f"file://{folder}/rendezvous", rank, checksum, left_out)
        for rank, (checksum, left_out) in enumerate(opened)
    ]
    return run_together(ask_rank, tasks, timeout_seconds=120)[0]


def test_alone_all_is_mine_and_there_is_nobody_to_ask():
    assert not distributed.is_initialized()
    assert shard_of(None, None, drop_last=False).ranks == 1
    with agreement(is_asked=True) as opened:
        opened.checksum = 1
    with pytest.raises(ZeroDivisionError), agreement(is_asked=True):
        raise ZeroDivisionError


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no gloo")
def test_ranks_that_opened_other_files_are_all_told(tmp_path):
    told = _ask(tmp_path, [(7, 0), (8, 1)])
    assert [each[:2] for each in told] == [(0, 2), (1, 2)]
    for _, _, message in told:
        assert "left out were, of rank 0: 0, rank 1: 1;" in message
    assert not torch.cuda.is_initialized()


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no gloo")
def test_ranks_that_agree_go_on(tmp_path):
    assert _ask(tmp_path, [(7, 1), (7, 1)]) == [(0, 2, ""), (1, 2, "")]


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no gloo")
def test_where_one_rank_fails_the_others_are_told_and_do_not_wait(tmp_path):
    (_, _, first), (_, _, second) = _ask(tmp_path, [(7, 0), (None, 0)])
    assert first.startswith("rank 1 could not make a loader")
    assert second == "nothing to read"


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this torch has no gloo")
def test_a_rank_that_cannot_open_its_cameras_does_not_leave_the_others_waiting(tmp_path):
    write_layout(tmp_path / "videos", {"a": 3}).write(tmp_path / "index.json")
    (tmp_path / "nothing").mkdir()
    tasks = [
        CamerasTask(f"file://{tmp_path}/rendezvous", rank, folder)
        for rank, folder in enumerate((tmp_path, tmp_path / "nothing"))
    ]
    first, second = run_together(open_cameras, tasks, timeout_seconds=120)[0]
    assert first.startswith("rank 1 could not make a loader")
    assert second.startswith("cannot read ")
