"""EpochSampler: the order of an epoch, for a stock DataLoader over a FrameDataset."""

import zlib
from collections.abc import Iterator

import numpy as np
from torch.utils import data

from headrace.argument_names import answers_names
from headrace.errors import ConfigError
from headrace.loaders.datasets import FrameDataset
from headrace.loaders.ranks import shard_of
from headrace.loaders.state import Position, check_identity
from headrace.loaders.video_set import frames_checksum, population_for
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.population import Population
from headrace.sampling.sampler import (
    Sampler,
    SamplerContext,
    bind_sampler,
    check_kind,
    check_order,
    check_samples,
)
from headrace.units import check_integers

_AT_A_TIME = 1024


@answers_names
class EpochSampler(data.Sampler[int]):
    """This rank's frame ids of one epoch, in the order that `sampling` says; an epoch a pass.

        sampler = EpochSampler(frames, ShuffledFrames(seed=0))
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    Each pass is followed by the next epoch, also one that was left early: what a DataLoader has
    fetched ahead of the loop, a sampler cannot know. The dataset is told of each epoch. Slots are
    dealt to ranks so that all together are given the same in a step, whatever their number.
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
        """Draw nothing yet.

        Args:
            frames: What is sampled from.
            sampling: Which frames, in which order; None means `ShuffledFrames()`.
            rank: This process among `num_replicas`; None asks torch.distributed, if it is
                initialised, and is the only one otherwise.
            num_replicas: Processes that share an epoch; None as for `rank`.
            drop_last: Leave out slots that do not share out evenly, instead of giving the first
                ones again.
            batch_size: That of the DataLoader; only `Bursts` needs to know, so that no batch holds
                two frames of a burst.

        Raises:
            ConfigError: `frames` is neither, `sampling` gives clips, or does not suit these videos
                or batches; or there is no such rank.
        """
        check_integers(1, batch_size=batch_size)
        if not isinstance(frames, FrameDataset | Population):
            raise ConfigError(
                f"an EpochSampler samples a FrameDataset, or a Population, got "
                f"{type(frames).__name__}; FrameLoader takes a Manifest or a list of videos"
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
        use = _use_of(frames, batch_size=batch_size, ranks=self._shard.ranks)
        self._sampling = bind_sampler(sampling, use)
        if isinstance(frames, Population):
            self._population, self._videos = frames, frames_checksum(frames)
        else:
            self._population = population_for(self._sampling.traits, frames)
            self._videos = frames.checksum
        check_order(self._order(0), self._sampling, self._population)
        self._start = self._began = Position()
        self._yielded = 0

    def __len__(self) -> int:
        """How many frames this rank is given in a whole epoch; the same for every rank."""
        return self._shard.count(len(self._order(0)))

    def __iter__(self) -> Iterator[int]:
        """Yield the frame ids of one epoch, or what is left of it after `load_state_dict`."""
        began = self._began = self._start
        self._start = Position(epoch=began.epoch + 1)
        self._yielded = 0
        if self._frames is not None:
            self._frames.set_epoch(began.epoch)
        order = self._order(began.epoch)
        count = self._shard.count(len(order), began.place)
        for start in range(0, count, _AT_A_TIME):
            stop = min(start + _AT_A_TIME, count)
            given = order.at(self._shard.slots(start, stop, len(order), began.place))
            check_samples(given, self._sampling, self._population)
            for frame in given.tolist():
                self._yielded += 1
                yield frame

    @property
    def epoch(self) -> int:
        """The epoch that the next pass yields, or what is left of it."""
        return self._start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one of the next pass; a place in it that was loaded is kept."""
        check_integers(0, epoch=epoch)
        if epoch != self._start.epoch:
            self._go_to(Position(epoch=epoch))

    def state_dict(self, taken: int | None = None) -> dict[str, int]:
        """Return where training stands: a few integers, good for any number of ranks and workers.

        Args:
            taken: Samples that this rank's loop has taken in this pass. None means all that were
                yielded, which is right without workers; with them the DataLoader is ahead.

        Raises:
            ConfigError: a pass has not so many samples.
        """
        check_integers(0, taken=taken)
        began = self._began
        length = len(self._order(began.epoch))
        count = self._shard.count(length, began.place)
        taken = self._yielded if taken is None else taken
        if not 0 <= taken <= count:
            raise ConfigError(f"{taken} samples cannot be taken from a pass of {count}")
        is_done = taken == count
        return {
            **self._identity(),
            "epoch": began.epoch + is_done,
            "slot": 0 if is_done else began.place + taken * self._shard.ranks,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Begin the next pass where `state` was taken.

        Raises:
            ConfigError: the state is of another sampling, seed or set of videos.
        """
        check_identity(state, self._identity(), "videos in the same order, sampling and seed")
        self._go_to(Position.of(state, "slot"))

    def _go_to(self, position: Position) -> None:
        self._start = self._began = position
        self._yielded = 0

    def _order(self, epoch: int) -> EpochOrder:
        return self._sampling.order(self._population, epoch)

    def _identity(self) -> dict[str, int]:
        """What a state belongs to. Sampling and seed are in the checksum too."""
        return {
            "videos": self._population.num_videos,
            "frames": self._population.num_frames,
            "checksum": zlib.crc32(self._sampling.traits.identity.encode(), self._videos),
        }


def _use_of(
    frames: FrameDataset | Population, *, batch_size: int | None, ranks: int
) -> SamplerContext:
    if isinstance(frames, FrameDataset):
        return frames.use(batch_size=batch_size, ranks=ranks)
    videos = np.arange(frames.num_videos)
    return SamplerContext(
        videos=videos, videos_given=len(videos), batch_size=batch_size, ranks=ranks
    )
