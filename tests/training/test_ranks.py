"""Ranks under torch.distributed: their share, and whether they opened the same files."""

from dataclasses import dataclass

import pytest
import torch
from torch import distributed

from headrace.errors import ConfigError
from headrace.runtime.processes import run_together
from headrace.training.ranks import check_agreement, shard_of


@dataclass(frozen=True)
class _Task:
    rendezvous: str
    rank: int
    checksum: int
    left_out: int


def _rank(task, ready):
    """Join a group of two processes; return what the checks say."""
    distributed.init_process_group(
        "gloo", init_method=task.rendezvous, rank=task.rank, world_size=2
    )
    try:
        ready()
        shard = shard_of(None, None, drop_last=False)
        try:
            check_agreement(task.checksum, task.left_out)
        except ConfigError as error:
            return shard.rank, shard.ranks, str(error)
        return shard.rank, shard.ranks, ""
    finally:
        distributed.destroy_process_group()


def _ask(folder, opened):
    tasks = [
        _Task(f"file://{folder}/rendezvous", rank, checksum, left_out)
        for rank, (checksum, left_out) in enumerate(opened)
    ]
    return run_together(_rank, tasks, timeout_seconds=120)[0]


def test_alone_all_is_mine_and_there_is_nobody_to_ask():
    assert not distributed.is_initialized()
    assert shard_of(None, None, drop_last=False).ranks == 1
    check_agreement(1, 0)


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
