"""What each of two processes does, by a name that new processes can import."""

from dataclasses import dataclass
from pathlib import Path

from torch import distributed

from headrace.errors import ConfigError
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.ranks import agreement, shard_of


@dataclass(frozen=True)
class RankTask:
    """Where two processes meet, and what this one has opened."""

    rendezvous: str
    rank: int
    checksum: int | None
    """None: its loader cannot be made."""
    left_out: int


@dataclass(frozen=True)
class CamerasTask:
    """Where two processes meet, and the cameras that this one opens."""

    rendezvous: str
    rank: int
    folder: Path


def open_cameras(task, ready):
    """Join a group of two processes and open a folder of cameras; return what that says."""
    distributed.init_process_group(
        "gloo", init_method=task.rendezvous, rank=task.rank, world_size=2
    )
    try:
        ready()
        try:
            CameraStreamDataset(task.folder / "index.json", skip_bad=True).close()
        except ConfigError as error:
            return str(error)
        return ""
    finally:
        distributed.destroy_process_group()


def ask_rank(task, ready):
    """Join a group of two processes; return what the checks say."""
    distributed.init_process_group(
        "gloo", init_method=task.rendezvous, rank=task.rank, world_size=2
    )
    try:
        ready()
        shard = shard_of(None, None, drop_last=False)
        try:
            with agreement(is_asked=True) as opened:
                if task.checksum is None:
                    raise ConfigError("nothing to read")
                opened.checksum, opened.left_out = task.checksum, task.left_out
        except ConfigError as error:
            return shard.rank, shard.ranks, str(error)
        return shard.rank, shard.ranks, ""
    finally:
        distributed.destroy_process_group()
