"""Which part of an epoch this process delivers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed

from headrace.errors import ConfigError
from headrace.sampling.epoch_order import Shard


def shard_of(rank: int | None, num_replicas: int | None, *, drop_last: bool) -> Shard:
    """Return this process's share: as told, else as torch.distributed says, else all of it.

    Raises:
        ConfigError: only one of `rank` and `num_replicas` is given, or there is no such rank.
    """
    if (rank is None) != (num_replicas is None):
        raise ConfigError(
            f"rank and num_replicas go together, got {rank} and {num_replicas}; "
            "leave out both to use those of torch.distributed"
        )
    if rank is None or num_replicas is None:
        rank = distributed.get_rank() if _is_one_of_many() else 0
        num_replicas = distributed.get_world_size() if _is_one_of_many() else 1
    return Shard(rank=rank, ranks=num_replicas, remainder="drop" if drop_last else "repeat")


@dataclass
class Opened:
    """What a rank has opened, as one rank compares it with another."""

    checksum: int = 0
    """Of what this rank delivers from."""
    skipped: int = 0
    """How many files or clips it does without."""


@contextmanager
def agreement(is_asked: bool) -> Iterator[Opened]:
    """Let every rank of torch.distributed make its loader inside, from the same files, or none.

    Where they differ, ranks would have different numbers of steps, and the first to end, or one
    that has no loader at all, would keep the others waiting. Every rank must come by here, also one
    whose loader fails: the others are told. What is opened is written into the value that is given.

    Args:
        is_asked: Whether ranks may differ, as bad media is left out.

    Raises:
        ConfigError: they differ, or another rank failed. On every rank; the one that failed has its
            own error.
    """
    mine = Opened()
    try:
        yield mine
    except Exception:  # Whatever it is: those who wait must hear of it.
        if is_asked:
            _gathered(mine, has_failed=True)
        raise
    of_ranks = _gathered(mine, has_failed=False) if is_asked else []
    failed = [f"rank {rank}" for rank, each in enumerate(of_ranks) if each[0]]
    if failed:
        raise ConfigError(
            f"{', '.join(failed)} could not make a loader, so that the others would wait for "
            "nothing; see the error there"
        )
    if any(each != of_ranks[0] for each in of_ranks):
        said = ", ".join(f"rank {rank}: {skipped}" for rank, (*_, skipped) in enumerate(of_ranks))
        raise ConfigError(
            "ranks did not open the same files, so they would have different steps; left out "
            f"were, of {said}; see `skipped_videos` of each, and make the same files readable on "
            "all ranks"
        )


def _gathered(mine: Opened, *, has_failed: bool) -> list[list[int]]:
    """Return [has failed, checksum, left out] of every rank; none where there is one only."""
    if not _is_one_of_many():
        return []
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    values = [int(has_failed), mine.checksum, mine.skipped]
    own = torch.tensor(values, dtype=torch.int64, device=device)
    of_ranks = [torch.zeros_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(of_ranks, own)
    return [each.tolist() for each in of_ranks]


def _is_one_of_many() -> bool:
    return distributed.is_available() and distributed.is_initialized()
