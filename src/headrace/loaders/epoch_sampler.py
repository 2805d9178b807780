"""EpochSampler: frame ids for a stock DataLoader over a FrameDataset; each pass is one epoch."""

import zlib
from collections.abc import Iterator

import numpy as np
from torch.utils import data

from headrace.argument_names import answers_names
from headrace.errors import ConfigError
from headrace.loaders.datasets import FrameDataset
from headrace.loaders.epochs import STATE_VERSION, Position, check_identity, shard_of
from headrace.loaders.video_set import frames_checksum
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.population import Population
from headrace.sampling.sampler import (
    EpochOrder,
    Sampler,
    SamplerContext,
    bind_sampler,
    check_kind,
    check_order,
    check_samples,
)
from headrace.units import check_integers

_CHUNK_SLOTS = 1024
"""Slots whose frames are drawn together."""


@answers_names
class EpochSampler(data.Sampler[int]):
    """Frame ids of this rank, in the order of `sampling`; each pass is one epoch.

        sampler = EpochSampler(frames, ShuffledFrames(seed=0))
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    A pass that ends early is followed by the next epoch, because a sampler cannot know how much a
    DataLoader has prefetched. Each pass sets the epoch of the dataset. The frames of a step, over
    all ranks, are the same for any number of ranks.
    """

    def __init__(
        self,
        frames: FrameDataset | Population,
        sampling: Sampler | None = None,
        *,
        rank: int | None = None,
        num_replicas: int | None = None,
        drop_last: bool = False,
        batch_size: int | None = None,
    ) -> None:
        """Check that `sampling` suits the frames.

        Args:
            frames: Dataset or population to sample from.
            sampling: Choice and order of the frames; None: `ShuffledFrames()`.
            rank: Rank of this process among `num_replicas`; None: its rank in torch.distributed if
                that is initialized, otherwise 0.
            num_replicas: Processes that share an epoch; None as for `rank`.
            drop_last: Drop slots that do not divide evenly among ranks, instead of repeating the
                first ones.
            batch_size: Batch size of the DataLoader. Only `Bursts` needs it, to keep the frames of
                a burst out of one batch.

        Raises:
            ConfigError: `frames` has another type, `sampling` samples clips or does not suit these
                videos or batches, or the rank is out of range.
        """
        check_integers(1, batch_size=batch_size)
        if not isinstance(frames, FrameDataset | Population):
            raise ConfigError(
                f"EpochSampler needs a FrameDataset or a Population, got "
                f"{type(frames).__name__}; for a Manifest or a list of videos use FrameLoader"
            )
        self._frames = frames if isinstance(frames, FrameDataset) else None
        self._shard = shard_of(rank, num_replicas, drop_last=drop_last)
        sampling = ShuffledFrames() if sampling is None else sampling
        check_kind(
            sampling,
            "single frames",
            taker="EpochSampler",
            instead="use ClipLoader, or VideoDataset for one clip of each video",
        )
        ranks = self._shard.ranks
        if isinstance(frames, Population):
            videos = np.arange(frames.num_videos)
            context = SamplerContext(
                videos=videos, videos_given=len(videos), batch_size=batch_size, ranks=ranks
            )
            self._population, self._videos = frames, frames_checksum(frames)
        else:
            context = frames.use(batch_size=batch_size, ranks=ranks)
            self._population, self._videos = frames.population, frames.checksum
        self._sampling = bind_sampler(sampling, context)
        if isinstance(frames, FrameDataset) and self._sampling.traits.needs_durations:
            self._population = frames.timed_population()
        check_order(self._order(0), self._sampling, self._population)
        self._start = self._pass_start = Position()
        self._yielded = 0

    def __len__(self) -> int:
        """Number of frames of a rank in a whole epoch; the same for every rank."""
        return self._shard.count(len(self._order(0)))

    def __iter__(self) -> Iterator[int]:
        """Yield the frame ids of one epoch, or the rest of it after `load_state_dict`."""
        start = self._pass_start = self._start
        self._start = Position(epoch=start.epoch + 1)
        self._yielded = 0
        if self._frames is not None:
            self._frames.set_epoch(start.epoch)
        order = self._order(start.epoch)
        count = self._shard.count(len(order), start.offset)
        for first in range(0, count, _CHUNK_SLOTS):
            stop = min(first + _CHUNK_SLOTS, count)
            frames = order.at(self._shard.slots(first, stop, len(order), start.offset))
            check_samples(frames, self._sampling, self._population)
            for frame in frames.tolist():
                self._yielded += 1
                yield frame

    @property
    def epoch(self) -> int:
        """Epoch of the next pass."""
        return self._start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; a loaded position in that epoch is kept."""
        check_integers(0, epoch=epoch)
        if epoch != self._start.epoch:
            self._go_to(Position(epoch=epoch))

    def state_dict(self, taken: int | None = None) -> dict[str, int]:
        """Return the position: a few integers, valid for any number of ranks and workers.

        Args:
            taken: Samples that this rank's training loop has consumed in this pass. None: all that
                were yielded. With workers, pass the number: the DataLoader is ahead of the loop.

        Raises:
            ConfigError: `taken` is out of range.
        """
        check_integers(0, taken=taken)
        start = self._pass_start
        length = len(self._order(start.epoch))
        count = self._shard.count(length, start.offset)
        taken = self._yielded if taken is None else taken
        if not 0 <= taken <= count:
            raise ConfigError(
                f"taken must be from 0 to {count}, the samples of a pass, got {taken}"
            )
        is_done = taken == count
        return {
            "version": STATE_VERSION,
            **self._identity(),
            "epoch": start.epoch + is_done,
            "slot": 0 if is_done else start.offset + taken * self._shard.ranks,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Start the next pass at the position of `state`.

        Raises:
            ConfigError: the state belongs to another sampling, seed or set of videos.
        """
        check_identity(state, self._identity(), "videos in the same order, sampling and seed")
        self._go_to(Position.from_state(state, "slot"))

    def _go_to(self, position: Position) -> None:
        self._start = self._pass_start = position
        self._yielded = 0

    def _order(self, epoch: int) -> EpochOrder:
        return self._sampling.order(self._population, epoch)

    def _identity(self) -> dict[str, int]:
        """Return the state entries that must match; the checksum includes sampling and seed."""
        return {
            "videos": self._population.num_videos,
            "frames": self._population.num_frames,
            "checksum": zlib.crc32(self._sampling.traits.identity.encode(), self._videos),
        }
