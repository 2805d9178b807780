"""Which part of an epoch this process delivers."""

import torch
from torch import distributed

from headrace.errors import ConfigError
from headrace.sampling.shards import Shard


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


def check_agreement(checksum: int, left_out: int) -> None:
    """Check, where torch.distributed is initialised, that all ranks opened the same files.

    Where they did not, they would have different numbers of steps, and the first to end would keep
    the others waiting. Every rank must call it.

    Args:
        checksum: Of what this rank delivers from.
        left_out: How many files or clips this rank could not open.

    Raises:
        ConfigError: they differ; says how many each rank left out. On every rank.
    """
    if not _is_one_of_many():
        return
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    mine = torch.tensor([checksum, left_out], dtype=torch.int64, device=device)
    of_ranks = [torch.zeros_like(mine) for _ in range(distributed.get_world_size())]
    distributed.all_gather(of_ranks, mine)
    if any(not torch.equal(each, mine) for each in of_ranks):
        said = ", ".join(f"rank {rank}: {int(each[1])}" for rank, each in enumerate(of_ranks))
        raise ConfigError(
            f"ranks did not open the same files, so they would have different steps; left out "
            f"were, of {said}; see `left_out` of each, and make all files readable for every rank"
        )


def _is_one_of_many() -> bool:
    return distributed.is_available() and distributed.is_initialized()
