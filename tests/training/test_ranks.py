"""Ranks under torch.distributed: their share, and whether they opened the same files."""

import pytest
import torch
from torch import distributed

from headrace.runtime.processes import run_together
from headrace.training.ranks import agreement, shard_of
from training.cameras.clips import write_layout
from training.rank_tasks import RankTask, ask_rank

needs_gloo = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this torch has no gloo"
)


def ask(folder, opened):
    """Return what two ranks say that opened these."""
    tasks = [
        RankTask(f"file://{folder}/rendezvous", rank, opens) for rank, opens in enumerate(opened)
    ]
    found = run_together(ask_rank, tasks, timeout_seconds=120)[0]
    assert [each[:2] for each in found] == [(0, 2), (1, 2)]
    return [said for *_, said in found]


def test_alone_all_is_mine_and_there_is_nobody_to_ask():
    assert not distributed.is_initialized()
    assert shard_of(None, None, drop_last=False).ranks == 1
    with agreement(is_asked=True) as opened:
        opened.checksum = 1
    with pytest.raises(ZeroDivisionError), agreement(is_asked=True):
        raise ZeroDivisionError


@needs_gloo
def test_ranks_that_opened_other_files_are_all_told_and_others_go_on(tmp_path):
    for said in ask(tmp_path, [(7, 0), (8, 1)]):
        assert "left out were, of rank 0: 0, rank 1: 1;" in said
    assert not torch.cuda.is_initialized()
    (tmp_path / "other").mkdir()
    assert ask(tmp_path / "other", [(7, 1), (7, 1)]) == ["", ""]


@needs_gloo
@pytest.mark.parametrize("kind", ["frames", "cameras"])
def test_where_one_rank_fails_the_others_are_told_and_do_not_wait(tmp_path, kind):
    write_layout(tmp_path / "videos", {"a": 3}).write(tmp_path / "index.json")
    (tmp_path / "nothing").mkdir()
    opened = {"frames": [(7, 0), (None, 0)], "cameras": [tmp_path, tmp_path / "nothing"]}
    first, second = ask(tmp_path, opened[kind])
    assert first.startswith("rank 1 could not make a loader")
    assert second.startswith({"frames": "nothing to read", "cameras": "cannot read "}[kind])
