"""Which part of an epoch this process delivers."""

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
        is_one_of_many = distributed.is_available() and distributed.is_initialized()
        rank = distributed.get_rank() if is_one_of_many else 0
        num_replicas = distributed.get_world_size() if is_one_of_many else 1
    return Shard(rank=rank, ranks=num_replicas, remainder="drop" if drop_last else "repeat")
