"""This process's share of an epoch, and the agreement of ranks on what they opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed

from headrace.errors import ConfigError
from headrace.sampling.epoch_order import Shard


def shard_of(rank: int | None, num_replicas: int | None, *, drop_last: bool) -> Shard:
    """Return this process's share: as given, else that of torch.distributed, else the whole epoch.

    Raises:
        ConfigError: only one of `rank` and `num_replicas` is given, or they do not fit.
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
    """What a rank has opened, for comparison with other ranks."""

    checksum: int = 0
    """Checksum of what this rank samples from."""
    skipped: int = 0
    """Number of files or clips that this rank skipped."""


@contextmanager
def agreement(is_needed: bool) -> Iterator[Opened]:
    """Make the loaders of all ranks of torch.distributed inside, from the same files.

    Ranks with different files have different numbers of steps, and the first to end, or a rank
    without a loader, would keep the others waiting. Every rank must enter, even if its loader
    fails: the others then fail, too. The caller writes what it opened into the yielded value.

    Args:
        is_needed: Whether ranks may differ, as bad media is skipped.

    Raises:
        ConfigError: on every rank, if ranks differ or another rank failed. The rank that failed
            raises its own error.
    """
    local = Opened()
    try:
        yield local
    except Exception:  # any error: the other ranks wait for this one
        if is_needed:
            _gather(local, has_failed=True)
        raise
    of_ranks = _gather(local, has_failed=False) if is_needed else []
    failed = [f"rank {rank}" for rank, (has_failed, *_) in enumerate(of_ranks) if has_failed]
    if failed:
        raise ConfigError(
            f"{', '.join(failed)} could not make a loader, and the other ranks would wait for "
            "it; see its error"
        )
    if any(values != of_ranks[0] for values in of_ranks):
        skipped_by_rank = ", ".join(
            f"rank {rank}: {skipped}" for rank, (*_, skipped) in enumerate(of_ranks)
        )
        raise ConfigError(
            "ranks opened different files, so they would have different steps; skipped by "
            f"{skipped_by_rank}; see `skipped_videos` of each, and make the same files "
            "readable on all ranks"
        )


def _gather(local: Opened, *, has_failed: bool) -> list[list[int]]:
    """Return [has failed, checksum, skipped] of every rank; an empty list for a single process."""
    if not _is_one_of_many():
        return []
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    values = [int(has_failed), local.checksum, local.skipped]
    own = torch.tensor(values, dtype=torch.int64, device=device)
    of_ranks = [torch.zeros_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(of_ranks, own)
    return [tensor.tolist() for tensor in of_ranks]


def _is_one_of_many() -> bool:
    return distributed.is_available() and distributed.is_initialized()
