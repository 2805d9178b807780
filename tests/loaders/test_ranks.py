"""Ranks under torch.distributed: their share, and whether they opened the same files."""

import pytest
import torch
from torch import distributed

from headrace.loaders.epochs import agreement, shard_of
from headrace.runtime.rank_processes import run_ranks
from loaders.cameras.clips import write_layout
from loaders.rank_tasks import RankTask, ask_rank

needs_gloo = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this torch has no gloo"
)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The messages of two ranks, by what they opened."""
    folder = tmp_path_factory.mktemp("ranks")
    write_layout(folder / "videos", {"a": 3}).write(folder / "index.json")
    (folder / "nothing").mkdir()
    opened = {
        "other files": [(7, 0), (8, 1)],
        "the same files": [(7, 1), (7, 1)],
        "frames": [(7, 0), (None, 0)],
        "cameras": [folder, folder / "nothing"],
    }
    tasks = [
        RankTask(f"file://{folder}/rendezvous", rank, tuple(each[rank] for each in opened.values()))
        for rank in (0, 1)
    ]
    found = run_ranks(ask_rank, tasks, timeout_seconds=120)[0]
    assert [each[:2] for each in found] == [(0, 2), (1, 2)]
    return dict(zip(opened, zip(*(each[2] for each in found), strict=True), strict=True))


def test_alone_all_is_mine_and_there_is_nobody_to_ask():
    assert not distributed.is_initialized()
    assert shard_of(None, None, drop_last=False).ranks == 1
    with agreement(is_needed=True) as opened:
        opened.checksum = 1
    with pytest.raises(ZeroDivisionError), agreement(is_needed=True):
        raise ZeroDivisionError


@needs_gloo
def test_ranks_that_opened_other_files_are_all_told_and_others_go_on(said):
    for each in said["other files"]:
        assert "skipped by rank 0: 0, rank 1: 1;" in each
    assert not torch.cuda.is_initialized()
    assert said["the same files"] == ("", "")


@needs_gloo
@pytest.mark.parametrize(
    ("kind", "words"), [("frames", "nothing to read"), ("cameras", "cannot read ")]
)
def test_where_one_rank_fails_the_others_are_told_and_do_not_wait(said, kind, words):
    first, second = said[kind]
    assert first.startswith("rank 1 could not make a loader")
    assert second.startswith(words)
