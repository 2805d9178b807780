"""Ranks under torch.distributed: their share, and whether they opened the same files."""

from pathlib import Path

import pytest
import torch
from torch import distributed

from headrace import CameraStreamDataset, ConfigError
from headrace.loaders.epochs import agreement, shard_of
from headrace.runtime.spawned_processes import run_ranks
from loaders.cameras.clips import write_layout


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
