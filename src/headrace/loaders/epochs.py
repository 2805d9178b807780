"""Epochs: the steps of one rank, epoch after epoch, as frame ids; and what all ranks agree on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.loaders.quarantine import Quarantine
from headrace.sampling.counter_rng import ATTEMPTS, substitutes
from headrace.sampling.epoch_order import EpochOrder, Shard
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, check_order, check_samples
from headrace.units import check_counts, check_integers


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
    """Checksum and count of the media that a rank opened, for comparison among ranks."""

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


_LARGEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True, order=True)
class Position:
    """Position of training; with the seed, all that resuming needs."""

    epoch: int = 0
    offset: int = 0
    """Offset in the epoch: slots that all ranks together have delivered, or steps of cameras."""

    @classmethod
    def from_state(cls, state: dict[str, int], offset_key: str) -> "Position":
        """Return the position in a state.

        Args:
            state: The saved state.
            offset_key: Its key of the offset: "slot" or "step".

        Raises:
            ConfigError: a key is missing, or its value is no integer >= 0.
        """
        for name in ("epoch", offset_key):
            if name not in state:
                raise ConfigError(
                    f"a state says epoch and {offset_key}, this one only {', '.join(state)}; "
                    f"{name} must be an integer >= 0, got none"
                )
            check_counts(0, _LARGEST, **{name: state[name]})
        return cls(epoch=state["epoch"], offset=state[offset_key])


STATE_VERSION: Final = 1
"""Version of the states of loaders and samplers; a state without one has version 1."""


def check_state_version(state: Mapping[str, Any]) -> None:
    """Check that this headrace reads a state.

    Raises:
        ConfigError: the state has another version.
    """
    version = state.get("version", 1)
    if version != STATE_VERSION:
        raise ConfigError(
            f"this state has version {version!r}, this headrace reads version {STATE_VERSION}; "
            "resume with the headrace that wrote it, or a newer one"
        )


def check_identity(state: dict[str, int], identity: dict[str, int], needed: str) -> None:
    """Check that `state` has every entry of `identity`.

    Args:
        state: The saved state.
        identity: Identity of the loader that resumes.
        needed: What must be the same to resume, for the message.

    Raises:
        ConfigError: entries differ (names all of them), it has another version, or it is no state.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(
            f"a state is a dict, as state_dict() gives it, got {type(state).__name__}"
        )
    check_state_version(state)
    if any(state.get(name) != value for name, value in identity.items()):
        counts = {name: value for name, value in identity.items() if name != "checksum"}
        differences = ", ".join(
            f"{name} {state.get(name)} (here {value})"
            for name, value in counts.items()
            if state.get(name) != value
        )
        differences = differences or (
            f"{', '.join(counts)} are the same, but the files, their order or the sampling differ"
        )
        raise ConfigError(
            f"this state does not belong to this loader: {differences}; resume with the "
            f"same {needed}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RankBatch:
    """Requests of one batch of one rank."""

    epoch: int
    slots: NDArray[np.int64]
    """int64 [N]: slots of the epoch."""
    frames: NDArray[np.int64]
    """int64 [N], or [N, T] of clips: frame ids."""
    drawn: NDArray[np.int64]
    """int64 [N]: slot that each sample was drawn for: its own, except for substitutes."""
    is_repeated: NDArray[np.bool_]
    """bool [N]: the slot was delivered before in this epoch."""
    after: Position
    """Position when every rank has delivered this step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSamples:
    """Pixels of one step, and their frames."""

    step: RankBatch
    frames: NDArray[np.int64]
    """int64 [N], or [N, T]: frame ids, those of the step except for substitutes of bad samples."""
    drawn: NDArray[np.int64]
    """int64 [N]: slot that each sample was drawn for: its own, except for substitutes."""
    pixels: Any
    """uint8 (or uint16) [N, H, W, 3], or [N, T, H, W, 3], in the memory of the run; owned by the
    caller. Black where lost."""
    is_concealed: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is damaged and concealed by FFmpeg."""
    is_lost: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is bad, and the sample is delivered without it; only with
    `on_error="mask"`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Epochs:
    """The steps of one rank. Every rank has as many steps, of the same size."""

    sampling: Sampler
    population: Population
    quarantine: Quarantine
    seed: int
    batch_size: int
    shard: Shard
    drop_last: bool
    replaces_bad: bool = True
    """Whether a sample with a known bad frame is replaced by another one."""

    def __post_init__(self) -> None:
        check_integers(1, batch_size=self.batch_size)
        check_order(self.order(0), self.sampling, self.population)

    @property
    def largest_step(self) -> int:
        """Samples of the largest batch; below `batch_size` if an epoch has fewer."""
        return min(self.batch_size, self.shard.count(len(self.order(0))))

    def num_steps(self, slot: int = 0) -> int:
        """Return the number of steps of an epoch from `slot` on.

        Raises:
            ConfigError: a batch is larger than an epoch, and `drop_last` drops smaller batches.
        """
        length = len(self.order(0))
        share = self.shard.count(length)
        if self.drop_last and self.batch_size > share:
            fewer = f"a batch_size of at most {share}" if share else "fewer ranks"
            raise ConfigError(
                f"a batch of {self.batch_size} on each of {self.shard.ranks} ranks is more than "
                f"the {length} samples of an epoch, and drop_last leaves out smaller ones, so that "
                f"none is left; ask for {fewer}, or leave out drop_last"
            )
        samples = self.shard.count(length, slot)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def steps(self, start: Position, stop_epoch: int | None = None) -> Iterator[RankBatch]:
        """Yield every step from `start` up to, without, `stop_epoch`, or without end."""
        slot = start.offset
        epochs = count(start.epoch) if stop_epoch is None else range(start.epoch, stop_epoch)
        for epoch in epochs:
            num_steps = self.num_steps(slot)
            for step in range(num_steps):
                yield self._step(epoch, slot, step, is_last=step == num_steps - 1)
            slot = 0

    @cached_property
    def order(self) -> Callable[[int], EpochOrder]:
        """Returns the order of an epoch; the last four are cached."""
        return lru_cache(maxsize=4)(partial(self.sampling.order, self.population))

    def samples(
        self, epoch: int, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the frame ids of `slots`, and the slot that each sample was drawn for.

        They are int64 [n] or [n, T], and int64 [n]. Bad samples are replaced by substitutes.

        Raises:
            ConfigError: all substitutes of a slot are bad.
        """
        order = self.order(epoch)
        frames, drawn = order.at(slots), slots.copy()
        check_samples(frames, self.sampling, self.population)
        if not self.replaces_bad:
            return frames, drawn
        for attempt in range(ATTEMPTS):
            bad = self.quarantine.is_bad(frames).reshape(len(slots), -1).any(axis=1)
            if not bad.any():
                return frames, drawn
            drawn[bad] = substitutes(len(order), slots[bad], attempt, seed=self.seed, epoch=epoch)
            frames[bad] = order.at(drawn[bad])
        raise ConfigError(
            f"{len(self.quarantine)} of {self.population.num_frames} frames are bad, so nearly all "
            "samples are; look at the quarantine list, and leave those videos out"
        )

    def _step(self, epoch: int, skip: int, step: int, *, is_last: bool) -> RankBatch:
        length = len(self.order(epoch))
        start = step * self.batch_size
        stop = min(start + self.batch_size, self.shard.count(length, skip))
        slots = self.shard.slots(start, stop, length, skip)
        frames, drawn = self.samples(epoch, slots)
        delivered = skip + stop * self.shard.ranks
        return RankBatch(
            epoch=epoch,
            slots=slots,
            frames=frames,
            drawn=drawn,
            is_repeated=self.shard.is_repeated(start, stop, length, skip),
            after=Position(epoch=epoch + 1) if is_last else Position(epoch=epoch, offset=delivered),
        )
