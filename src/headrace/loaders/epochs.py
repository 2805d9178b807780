"""Epochs: the steps of one rank as frame ids, and the checks that ranks agree."""

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
from headrace.sampling.population import Population
from headrace.sampling.sampler import EpochOrder, Sampler, Shard, check_order, check_samples
from headrace.units import check_counts, check_integers


def shard_of(rank: int | None, num_replicas: int | None, *, drop_last: bool) -> Shard:
    """Return this process's shard: by the arguments, or by torch.distributed, or the whole epoch.

    Raises:
        ConfigError: only one of `rank` and `num_replicas` is given, or the rank is out of range.
    """
    if (rank is None) != (num_replicas is None):
        raise ConfigError(
            f"give both rank and num_replicas or neither, got {rank} and {num_replicas}; without "
            "them, torch.distributed is used"
        )
    if rank is None or num_replicas is None:
        rank = distributed.get_rank() if _is_distributed() else 0
        num_replicas = distributed.get_world_size() if _is_distributed() else 1
    return Shard(rank=rank, ranks=num_replicas, remainder="drop" if drop_last else "repeat")


@dataclass
class Opened:
    """Checksum and skipped count of the media that a rank opened, compared among ranks."""

    checksum: int = 0
    """Checksum of the media that this rank samples."""
    skipped: int = 0
    """Number of files or clips that this rank skipped."""


@contextmanager
def agreement(is_needed: bool) -> Iterator[Opened]:
    """Check, after the block, that all ranks of torch.distributed opened the same media.

    Ranks with different files have different numbers of steps: the others would wait for the first
    rank to end, or for a rank without a loader. Every rank must enter the block, even if its loader
    fails; the others then fail too. The caller sets the fields of the yielded value.

    Args:
        is_needed: Whether ranks may differ, because bad media is skipped.

    Raises:
        ConfigError: on every rank, if ranks differ or another rank failed. A rank that failed
            raises its own error.
    """
    local = Opened()
    try:
        yield local
    except Exception:  # any error: the other ranks are waiting
        if is_needed:
            _gather(local, has_failed=True)
        raise
    of_ranks = _gather(local, has_failed=False) if is_needed else []
    failed = [f"rank {rank}" for rank, (has_failed, *_) in enumerate(of_ranks) if has_failed]
    if failed:
        raise ConfigError(
            f"{', '.join(failed)} failed to create a loader, and the other ranks would wait for "
            "it; see its error"
        )
    if any(values != of_ranks[0] for values in of_ranks):
        skipped_by_rank = ", ".join(
            f"rank {rank}: {skipped}" for rank, (*_, skipped) in enumerate(of_ranks)
        )
        raise ConfigError(
            "ranks opened different files, and would have different numbers of steps; skipped by "
            f"{skipped_by_rank}; see `skipped_videos` of each rank, and make the same files "
            "readable on all ranks"
        )


def _gather(local: Opened, *, has_failed: bool) -> list[list[int]]:
    """Return [has failed, checksum, skipped] of every rank; an empty list for a single process."""
    if not _is_distributed():
        return []
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    values = [int(has_failed), local.checksum, local.skipped]
    tensor = torch.tensor(values, dtype=torch.int64, device=device)
    of_ranks = [torch.zeros_like(tensor) for _ in range(distributed.get_world_size())]
    distributed.all_gather(of_ranks, tensor)
    return [of_rank.tolist() for of_rank in of_ranks]


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()


_LARGEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True, order=True)
class Position:
    """Position in training; resuming needs nothing else, except the seed."""

    epoch: int = 0
    offset: int = 0
    """Offset in the epoch: slots delivered by all ranks together, or steps of a camera loader."""

    @classmethod
    def from_state(cls, state: dict[str, int], offset_key: str) -> "Position":
        """Return the position in a state.

        Args:
            state: The saved state.
            offset_key: Key of the offset: "slot" or "step".

        Raises:
            ConfigError: a key is missing, or its value is not an integer >= 0.
        """
        for name in ("epoch", offset_key):
            if name not in state:
                raise ConfigError(
                    f"a state must have epoch and {offset_key}, integers >= 0, got only "
                    f"{', '.join(state)}"
                )
            check_counts(0, _LARGEST, **{name: state[name]})
        return cls(epoch=state["epoch"], offset=state[offset_key])


STATE_VERSION: Final = 1
"""Version of the states of loaders and samplers; a state without one has version 1."""


def check_state_version(state: Mapping[str, Any]) -> None:
    """Check that this version of headrace can read a state.

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
        needed: Arguments that must be the same to resume, for the message.

    Raises:
        ConfigError: entries differ (all are named), or it has another version, or is not a state.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(f"a state must be a dict from state_dict(), got {type(state).__name__}")
    check_state_version(state)
    if "checksum" not in state:
        raise ConfigError(
            "this is not the state of a loader or sampler: it has "
            f"{', '.join(map(str, state)) or 'no entry'}; give the result of state_dict()"
        )
    if any(state.get(name) != value for name, value in identity.items()):
        counts = {name: value for name, value in identity.items() if name != "checksum"}
        differences = ", ".join(
            f"{name} {state.get(name)} (here {value})"
            for name, value in counts.items()
            if state.get(name) != value
        )
        differences = differences or (
            f"{', '.join(counts)} are the same, but the name or size of a file, the order of the "
            "files, or the sampling differs"
        )
        raise ConfigError(
            f"the state is of another loader: {differences}; resume with the same {needed}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RankBatch:
    """Requests of one batch on one rank."""

    epoch: int
    slots: NDArray[np.int64]
    """int64 [N]: slots of the epoch."""
    frames: NDArray[np.int64]
    """int64 [N], or [N, T] of clips: frame ids."""
    drawn: NDArray[np.int64]
    """int64 [N]: slot whose sample each slot delivers: itself, or its substitute's."""
    is_repeated: NDArray[np.bool_]
    """bool [N]: whether the slot was delivered before in this epoch."""
    after: Position
    """Position after every rank has delivered this step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSamples:
    """Decoded samples of one step."""

    requests: RankBatch
    frames: NDArray[np.int64]
    """int64 [N], or [N, T]: frame ids, as requested except for substitutes of bad samples."""
    drawn: NDArray[np.int64]
    """int64 [N]: slot whose sample each slot delivers: itself, or its substitute's."""
    pixels: Any
    """uint8 (or uint16) [N, H, W, 3], or [N, T, H, W, 3], in memory of the run; owned by the
    caller. Lost frames are black."""
    is_concealed: NDArray[np.bool_]
    """bool [N], or [N, T]: whether the frame is damaged and concealed by FFmpeg."""
    is_lost: NDArray[np.bool_]
    """bool [N], or [N, T]: whether the frame is bad and the sample is delivered without it; only
    with `on_error="mask"`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Epochs:
    """Steps of one rank. All ranks have equally many steps, of equal size."""

    sampling: Sampler
    population: Population
    quarantine: Quarantine
    seed: int
    batch_size: int
    shard: Shard
    drop_last: bool
    replaces_bad: bool = True
    """Whether a sample with a known bad frame is replaced by a substitute."""

    def __post_init__(self) -> None:
        check_integers(1, batch_size=self.batch_size)
        check_order(self.order(0), self.sampling, self.population)

    @property
    def largest_step(self) -> int:
        """Samples of the largest batch: `batch_size`, or the rank's whole epoch if it has fewer."""
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
                f"an epoch has {length} samples, less than a batch of {self.batch_size} on each of "
                f"{self.shard.ranks} ranks, and drop_last drops smaller batches; choose {fewer}, "
                "or leave out drop_last"
            )
        samples = self.shard.count(length, slot)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def steps(self, start: Position, stop_epoch: int | None = None) -> Iterator[RankBatch]:
        """Yield every step from `start` to `stop_epoch`, exclusive; None: without end."""
        slot = start.offset
        epochs = count(start.epoch) if stop_epoch is None else range(start.epoch, stop_epoch)
        for epoch in epochs:
            num_steps = self.num_steps(slot)
            for step in range(num_steps):
                yield self._step(epoch, slot, step, is_last=step == num_steps - 1)
            slot = 0

    @cached_property
    def order(self) -> Callable[[int], EpochOrder]:
        """Function that returns the order of an epoch; the last four are cached."""
        return lru_cache(maxsize=4)(partial(self.sampling.order, self.population))

    def samples(
        self, epoch: int, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the frame ids of `slots`, and the slot whose sample each of them delivers.

        int64 [n] or [n, T], and int64 [n]. Bad samples are replaced by substitutes.

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
            f"{len(self.quarantine)} of {self.population.num_frames} frames are bad, and so are "
            "nearly all samples; see the quarantine list, and leave out bad videos"
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
