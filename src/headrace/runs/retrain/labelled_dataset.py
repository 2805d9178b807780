"""Labelled videos of a training, their split, and their loaders."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, MediaError
from headrace.loaders.frame_loader import FrameLoader
from headrace.loaders.video_set import VideoSet
from headrace.runs.retrain.frame_labels import (
    FrameLabels,
    dummy_labels,
    held_out,
    label_frames,
    read_labels,
    real_path,
)
from headrace.runs.retrain.retrain_options import LabelledInput
from headrace.runtime.clock import Clock
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.population import Population
from headrace.sampling.sampler import EpochOrder, SamplerContext, SamplerTraits
from headrace.video.find_videos import find_videos
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetSampler:
    """Sampler of given frames: shuffled in each epoch, or in order."""

    indices: tuple[NDArray[np.int64], ...]
    """int64 frame indices of each video, ascending."""
    is_shuffled: bool = True
    seed: int = 0
    opened: NDArray[np.int64] | None = None
    """int64 [videos]: positions of the opened videos; None: all."""

    @property
    def traits(self) -> SamplerTraits:
        """Each frame at most once per epoch."""
        return SamplerTraits(
            identity=f"SubsetSampler({self._checksum}, is_shuffled={self.is_shuffled})",
            is_random=self.is_shuffled,
            has_replacement=False,
            seed=self.seed,
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return this sampler for the opened videos and the seed of `context`."""
        return replace(self, seed=context.seed_for(self.seed), opened=context.videos)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch."""
        opened = range(len(self.indices)) if self.opened is None else self.opened.tolist()
        starts = population.video_start
        ids = np.concatenate(
            [starts[position] + self.indices[video] for position, video in enumerate(opened)]
        )
        if not self.is_shuffled or not len(ids):
            return EpochOrder(length=len(ids), frames_at=lambda slots: ids[slots])
        draws = CounterRng(seed=self.seed, epoch=epoch, purpose=RngStream.SHUFFLE)
        shuffle = Feistel(size=len(ids), draws=draws)
        return EpochOrder(length=len(ids), frames_at=lambda slots: ids[shuffle.at(slots)])

    @cached_property
    def _checksum(self) -> int:
        checksum = 0
        for frames in self.indices:
            checksum = zlib.crc32(np.ascontiguousarray(frames).data, zlib.crc32(b"video", checksum))
        return checksum


_EVALUATED_FRAMES: Final = 32
"""Frames evaluated per held-out video; neighboring frames add little."""
_MIN_BUDGET_BYTES: Final = 1 << 30
"""Min memory budget for decoded frames, in bytes."""
_MIN_BUDGET_BATCHES: Final = 6
"""Min memory budget for decoded frames, in batches."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledDataset:
    """Videos of a training, with frame labels and split."""

    input: LabelledInput
    indexes: tuple[StreamIndex, ...]
    """Indexes of the opened videos, in the given order."""
    skipped: tuple[MediaError, ...]
    """Errors of the videos that cannot be opened."""
    labels: FrameLabels
    held_out: frozenset[int]
    """Positions of the held-out videos."""
    seed: int
    store: IndexStore | None = None

    @classmethod
    def open(
        cls, source: LabelledInput, seed: int, store: IndexStore | None = None
    ) -> "LabelledDataset":
        """Index the videos, label the frames and split the videos. Decodes nothing.

        Raises:
            ConfigError: the labels do not fit, or the videos have different sizes and `size` is
                None.
            OpenError, ScanError: a video cannot be read, and `on_error` is `raise`.
        """
        rows = None if source.labels is None else read_labels(source.labels)
        paths = list({real_path(path): path for path in find_videos(source.sources)}.values())
        videos = VideoSet.open(paths, skip_bad=source.on_error == "skip", index_store=store)
        indexes = videos.indexes
        if rows is None or source.labels is None:
            labels, held = dummy_labels(indexes, seed), frozenset[int]()
        else:
            bad = {error.source for error in videos.skipped}
            missing = {real_path(path) for path in paths if str(path) in bad}
            usable_rows = [row for row in rows if real_path(row.path) not in missing]
            labels = label_frames(indexes, usable_rows, source.labels)
            contents = [index.source.content_id() for index in indexes]
            held = held_out(labels, contents, share=source.held_out, seed=seed)
        _check_sizes(indexes, source)
        return cls(
            input=source,
            indexes=indexes,
            skipped=videos.skipped,
            labels=labels,
            held_out=held,
            seed=seed,
            store=store,
        )

    @property
    def training_videos(self) -> tuple[int, ...]:
        """Positions of the training videos, ascending."""
        return tuple(v for v in range(len(self.indexes)) if v not in self.held_out)

    @property
    def held_out_videos(self) -> tuple[int, ...]:
        """Positions of the held-out videos, ascending."""
        return tuple(sorted(self.held_out))

    @property
    def frames(self) -> int:
        """Training frames of an epoch."""
        return sum(map(len, self._training_frames()))

    def training_loader(self, batch_size: int, *, epochs: int, clock: Clock) -> FrameLoader:
        """Return the loader of training frames; `Batch.video` indexes `training_videos`."""
        sampler = SubsetSampler(indices=self._training_frames(), seed=self.seed)
        return self._loader(
            self.training_videos, sampler, batch_size, is_persistent=epochs > 1, clock=clock
        )

    def held_out_loader(self, batch_size: int, clock: Clock) -> FrameLoader:
        """Return the loader of some held-out frames; `Batch.video` indexes `held_out_videos`."""
        frames = [self.labels.frames_of(video) for video in self.held_out_videos]
        sampler = SubsetSampler(indices=tuple(map(_evenly_spaced, frames)), is_shuffled=False)
        return self._loader(
            self.held_out_videos, sampler, batch_size, is_persistent=False, clock=clock
        )

    def truth(self, videos: Sequence[int], batch: Any) -> tuple[list[int], NDArray[np.int64]]:
        """Return the video position and the class number, int64 [N], of each frame of a batch.

        `batch.video` indexes `videos`: `training_videos` or `held_out_videos`.
        """
        positions = [videos[video] for video in batch.video.tolist()]
        frames = zip(positions, batch.index.tolist(), strict=True)
        truth = [self.labels.of_frame[video][index] for video, index in frames]
        return positions, np.array(truth, np.int64)

    def _training_frames(self) -> tuple[NDArray[np.int64], ...]:
        stride = self.input.stride
        return tuple(self.labels.frames_of(video, stride) for video in self.training_videos)

    def _loader(
        self,
        videos: Sequence[int],
        sampling: SubsetSampler,
        batch_size: int,
        *,
        is_persistent: bool,
        clock: Clock,
    ) -> FrameLoader:
        size = self.input.size or self.indexes[0].info.upright_size
        return FrameLoader(
            [self.indexes[video].source for video in videos],
            batch_size=min(batch_size, sum(map(len, sampling.indices))),
            size=self.input.size,
            sampling=sampling,
            memory_budget=max(
                _MIN_BUDGET_BYTES, _MIN_BUDGET_BATCHES * batch_size * math.prod(size) * 3
            ),
            on_error=self.input.on_error,
            prefetch_next_epoch=is_persistent,
            index_store=self.store,
            clock=clock,
        )


def _evenly_spaced(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    positions = np.linspace(0, len(frames) - 1, _EVALUATED_FRAMES).round().astype(np.int64)
    return frames[np.unique(positions)]


def _check_sizes(indexes: Sequence[StreamIndex], source: LabelledInput) -> None:
    first = indexes[0]
    height, width = first.info.upright_size
    for index in indexes:
        if source.size is None and index.info.upright_size != (height, width):
            other_height, other_width = index.info.upright_size
            raise ConfigError(
                f"a batch needs frames of one size: {first.source} has {height}x{width}, "
                f"{index.source} {other_height}x{other_width}; give a size for all, "
                f"such as --size {height}x{width}"
            )
