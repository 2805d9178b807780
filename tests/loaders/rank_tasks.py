"""Tasks of two processes, importable by new processes."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import distributed

from headrace import CameraStreamDataset, ConfigError
from headrace.loaders.epochs import agreement, shard_of


@dataclass(frozen=True)
class RankTask:
    """Meeting point of two processes, and the sets that this one opens in turn."""

    rendezvous: str
    rank: int
    opens: tuple[tuple[int | None, int] | Path, ...]
    """Of each a checksum, None if its loader cannot be made, and how much it left out; or a folder
    of cameras."""


@contextmanager
def group(task):
    """Join a group of two processes."""
    rendezvous = {"init_method": task.rendezvous, "rank": task.rank, "world_size": 2}
    distributed.init_process_group("gloo", **rendezvous)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def ask_rank(task, ready):
    """Return the rank, the number of ranks, and the check's message for each set."""
    with group(task):
        ready()
        shard = shard_of(None, None, drop_last=False)
        return shard.rank, shard.ranks, [said_of(each) for each in task.opens]


def said_of(opens):
    """Return the message of the check."""
    try:
        if isinstance(opens, Path):
            CameraStreamDataset(opens / "index.json", skip_bad=True).close()
        else:
            with agreement(is_needed=True) as opened:
                checksum, skipped = opens
                if checksum is None:
                    raise ConfigError("nothing to read")
                opened.checksum, opened.skipped = checksum, skipped
    except ConfigError as error:
        return str(error)
    return ""
