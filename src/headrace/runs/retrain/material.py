"""What is trained on, and what is held out: videos opened, labelled and split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, MediaError
from headrace.runs.retrain.chosen_frames import ChosenFrames
from headrace.runs.retrain.examples import Examples, dummies, labelled, real_path
from headrace.runs.retrain.label_file import read_labels
from headrace.runs.retrain.options import LabelledInput
from headrace.runs.retrain.split import held_out
from headrace.runtime.clock import Clock
from headrace.training.loader import FrameLoader
from headrace.training.video_set import VideoSet
from headrace.video.manifest import find_videos
from headrace.video.stream_index import StreamIndex

_FRAMES: Final = 32
"""Of a held-out video that are looked at: neighbours are much alike, and tell little more."""
_BUDGET_BYTES: Final = 1 << 30
"""Of memory for decoded frames, at least."""
_BATCHES: Final = 6
"""That the budget has room for in any case."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """The videos of a training, and which class each frame has."""

    input: LabelledInput
    indexes: tuple[StreamIndex, ...]
    """Of the videos that could be opened, in the order given."""
    left_out: tuple[MediaError, ...]
    """Why the others could not be."""
    examples: Examples
    held_out: frozenset[int]
    """Places of the videos that are not trained on."""
    seed: int
    store: IndexStore | None = None

    @classmethod
    def open(cls, asked: LabelledInput, seed: int, store: IndexStore | None = None) -> "Material":
        """Open the index of every video, and label and split them; decodes nothing.

        Raises:
            ConfigError: the labels do not fit, or the videos have different sizes and none was
                asked for.
            OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
        """
        rows = None if asked.labels is None else read_labels(asked.labels)
        paths = list({real_path(path): path for path in find_videos(asked.sources)}.values())
        videos = VideoSet.open(paths, skip_bad=asked.on_error == "skip", store=store)
        indexes = videos.indexes
        if rows is None or asked.labels is None:
            examples, held = dummies(indexes, seed), frozenset[int]()
        else:
            bad = {error.source for error in videos.left_out}
            gone = {real_path(path) for path in paths if str(path) in bad}
            kept = [row for row in rows if real_path(row.path) not in gone]
            examples = labelled(indexes, kept, asked.labels)
            contents = [index.source.content_id() for index in indexes]
            held = held_out(examples, contents, share=asked.held_out, seed=seed)
        _check_sizes(indexes, asked)
        return cls(
            input=asked,
            indexes=indexes,
            left_out=videos.left_out,
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
        chosen = ChosenFrames(indices=self._training_frames(), seed=self.seed)
        return self._loader(
            self.trained_on, chosen, batch_size, is_persistent=epochs > 1, clock=clock
        )

    def held_out_loader(self, batch_size: int, clock: Clock) -> FrameLoader:
        """Return some frames of what was held out; `Batch.video` is a place in `looked_at`."""
        frames = [self.examples.frames_of(video) for video in self.looked_at]
        chosen = ChosenFrames(indices=tuple(map(_evenly, frames)), is_shuffled=False)
        return self._loader(self.looked_at, chosen, batch_size, is_persistent=False, clock=clock)

    def _training_frames(self) -> tuple[NDArray[np.int64], ...]:
        stride = self.input.stride
        return tuple(self.examples.frames_of(video, stride) for video in self.trained_on)

    def _loader(
        self,
        videos: Sequence[int],
        sampling: ChosenFrames,
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
            persistent=is_persistent,
            store=self.store,
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
