"""Videos of a training, labelled and split, and the loaders that read them."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, MediaError
from headrace.loaders.frame_loader import FrameLoader
from headrace.loaders.video_set import VideoSet
from headrace.runs.retrain.frame_labels import (
    FrameLabels,
    dummies,
    held_out,
    labelled,
    read_labels,
    real_path,
)
from headrace.runs.retrain.retrain_options import LabelledInput
from headrace.runtime.clock import Clock
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext, SamplerTraits
from headrace.video.find_videos import find_videos
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetSampler:
    """Some frames of each video: shuffled anew each epoch, or video after video."""

    indices: tuple[NDArray[np.int64], ...]
    """Of the frames of each video that was given, ascending."""
    is_shuffled: bool = True
    seed: int = 0
    opened: NDArray[np.int64] | None = None
    """int64 [videos]: places of the videos that could be opened; None: all."""

    @property
    def traits(self) -> SamplerTraits:
        """Each frame at most once an epoch."""
        return SamplerTraits(
            identity=f"SubsetSampler({self._checksum}, is_shuffled={self.is_shuffled})",
            is_random=self.is_shuffled,
            has_replacement=False,
            seed=self.seed,
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return this with the seed asked for, of the videos that were opened."""
        return replace(self, seed=context.seed_for(self.seed), opened=context.videos)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch."""
        opened = range(len(self.indices)) if self.opened is None else self.opened.tolist()
        starts = population.video_start
        ids = np.concatenate(
            [starts[place] + self.indices[video] for place, video in enumerate(opened)]
        )
        if not self.is_shuffled or not len(ids):
            return EpochOrder(length=len(ids), frames_at=lambda slots: ids[slots])
        draws = CounterRng(seed=self.seed, epoch=epoch, purpose=RngStream.SHUFFLE)
        shuffle = Feistel(size=len(ids), draws=draws)
        return EpochOrder(length=len(ids), frames_at=lambda slots: ids[shuffle.at(slots)])

    @cached_property
    def _checksum(self) -> int:
        found = 0
        for each in self.indices:
            found = zlib.crc32(np.ascontiguousarray(each).data, zlib.crc32(b"video", found))
        return found


_FRAMES: Final = 32
"""Of a held-out video that are looked at: neighbours are much alike, and tell little more."""
_BUDGET_BYTES: Final = 1 << 30
"""Of memory for decoded frames, at least."""
_BATCHES: Final = 6
"""That the budget has room for in any case."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledDataset:
    """The videos of a training, and which class each frame has."""

    input: LabelledInput
    indexes: tuple[StreamIndex, ...]
    """Of the videos that could be opened, in the order given."""
    left_out: tuple[MediaError, ...]
    """Why the others could not be."""
    examples: FrameLabels
    held_out: frozenset[int]
    """Places of the videos that are not trained on."""
    seed: int
    store: IndexStore | None = None

    @classmethod
    def open(
        cls, asked: LabelledInput, seed: int, store: IndexStore | None = None
    ) -> "LabelledDataset":
        """Open the index of every video, and label and split them; decodes nothing.

        Raises:
            ConfigError: the labels do not fit, or the videos have different sizes and none was
                asked for.
            OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
        """
        rows = None if asked.labels is None else read_labels(asked.labels)
        paths = list({real_path(path): path for path in find_videos(asked.sources)}.values())
        videos = VideoSet.open(paths, skip_bad=asked.on_error == "skip", index_store=store)
        indexes = videos.indexes
        if rows is None or asked.labels is None:
            examples, held = dummies(indexes, seed), frozenset[int]()
        else:
            bad = {error.source for error in videos.skipped}
            gone = {real_path(path) for path in paths if str(path) in bad}
            kept = [row for row in rows if real_path(row.path) not in gone]
            examples = labelled(indexes, kept, asked.labels)
            contents = [index.source.content_id() for index in indexes]
            held = held_out(examples, contents, share=asked.held_out, seed=seed)
        _check_sizes(indexes, asked)
        return cls(
            input=asked,
            indexes=indexes,
            left_out=videos.skipped,
            examples=examples,
            held_out=held,
            seed=seed,
            store=store,
        )

    @property
    def trained_on(self) -> tuple[int, ...]:
        """Places of the videos that are trained on."""
        return tuple(v for v in range(len(self.indexes)) if v not in self.held_out)

    @property
    def looked_at(self) -> tuple[int, ...]:
        """Places of the videos that the accuracy is measured on."""
        return tuple(sorted(self.held_out))

    @property
    def frames(self) -> int:
        """Frames of an epoch."""
        return sum(map(len, self._training_frames()))

    def training_loader(self, batch_size: int, *, epochs: int, clock: Clock) -> FrameLoader:
        """Return the batches to train on, shuffled; `Batch.video` is a place in `trained_on`."""
        chosen = SubsetSampler(indices=self._training_frames(), seed=self.seed)
        return self._loader(
            self.trained_on, chosen, batch_size, is_persistent=epochs > 1, clock=clock
        )

    def held_out_loader(self, batch_size: int, clock: Clock) -> FrameLoader:
        """Return some frames of what was held out; `Batch.video` is a place in `looked_at`."""
        frames = [self.examples.frames_of(video) for video in self.looked_at]
        chosen = SubsetSampler(indices=tuple(map(_evenly, frames)), is_shuffled=False)
        return self._loader(self.looked_at, chosen, batch_size, is_persistent=False, clock=clock)

    def truth(self, videos: Sequence[int], batch: Any) -> tuple[list[int], NDArray[np.int64]]:
        """Return the place of the video and the class, int64 [N], of each frame of a batch.

        `videos` are the places that `batch.video` counts: `trained_on` or `looked_at`.
        """
        places = [videos[video] for video in batch.video.tolist()]
        frames = zip(places, batch.index.tolist(), strict=True)
        truth = [self.examples.of_frame[video][index] for video, index in frames]
        return places, np.array(truth, np.int64)

    def _training_frames(self) -> tuple[NDArray[np.int64], ...]:
        stride = self.input.stride
        return tuple(self.examples.frames_of(video, stride) for video in self.trained_on)

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
            memory_budget=max(_BUDGET_BYTES, _BATCHES * batch_size * math.prod(size) * 3),
            on_error=self.input.on_error,
            prefetch_next_epoch=is_persistent,
            index_store=self.store,
            clock=clock,
        )


def _evenly(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.linspace(0, len(frames) - 1, _FRAMES).round().astype(np.int64)
    return frames[np.unique(places)]


def _check_sizes(indexes: Sequence[StreamIndex], asked: LabelledInput) -> None:
    first = indexes[0]
    height, width = first.info.upright_size
    for index in indexes:
        if asked.size is None and index.info.upright_size != (height, width):
            other_height, other_width = index.info.upright_size
            raise ConfigError(
                f"a batch needs frames of one size: {first.source} has {height}x{width}, "
                f"{index.source} {other_height}x{other_width}; name one that all are decoded to, "
                f"such as --size {height}x{width}"
            )
