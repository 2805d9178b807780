"""FrameLoader: batches of exactly sampled frames, decoded by a plan."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from headrace.decode.protocol import OnError
from headrace.loaders.arguments import takes
from headrace.loaders.batch import Batch
from headrace.loaders.decode_engine import StepSamples
from headrace.loaders.manifest import Manifest
from headrace.loaders.planned_loader import PlannedLoader, PlannedOptions, SampledFrom
from headrace.loaders.sampled_set import RowSet, SampledSet
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.epoch_order import Shard
from headrace.sampling.frame_samplers import UniformFrames
from headrace.sampling.sampler import SampleKind, Sampler, check_kind
from headrace.video.source import Source


@dataclass(frozen=True, kw_only=True)
class SampleOptions(PlannedOptions):
    """What may be asked of a loader of frames or clips.

    Args:
        videos: Paths of the videos; or a `Manifest`, whose rows are sampled as if each were a
            video, and whose columns come with each batch.
    """

    videos: Iterable[Source | str | os.PathLike[str]] | Manifest = field(kw_only=False)
    on_error: OnError = "raise"


@dataclass(frozen=True, kw_only=True)
class FrameLoaderOptions(SampleOptions):
    """What may be asked of a `FrameLoader`.

    Args:
        sampling: Which frames, in which order; None means `UniformFrames()`.
    """

    batch_size: int = 128
    sampling: Sampler | None = None


class FrameLoader(PlannedLoader[Batch]):
    """Batches of single frames from many videos: iterate it once for each epoch.

        with FrameLoader(videos, batch_size=128, size=(256, 256)) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.frames)

    Sampling decides which frames a batch holds, and the plan only how they are decoded: batches
    are the same, bit for bit, with any memory budget, look-ahead and number of workers. Steps are
    dealt to ranks so that all ranks together deliver the same in a step, whatever their number.

    Threads start with the first batch, stay for the next epoch, and end with `close`, with the
    `with` block, or with the loader. One thread may use a loader at a time. A state may be loaded
    with another number of workers or ranks, another budget, batch size and look-ahead.

    Arguments are the fields of `FrameLoaderOptions`, which extends `SampleOptions`,
    `PlannedOptions` and `LoaderOptions`; `help` lists them.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, the
            videos or the batches do not suit the sampling, or videos have different sizes and none
            was asked for; or ranks under torch.distributed leave out different videos.
        BackendError: the device is not here.
        OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
    """

    _SAMPLES: ClassVar[SampleKind] = "single frames"
    _INSTEAD: ClassVar[str] = (
        "give it to ClipLoader, as clips=, or take one of frames, such as ShuffledFrames()"
    )

    _rows: RowSet | None
    """Of the manifest that was given; None: a list of videos was."""

    @takes(FrameLoaderOptions)
    def __init__(self, asked: FrameLoaderOptions) -> None:
        """Open the index of every video; 1 ms for one that was seen before. Decodes nothing yet."""
        self._open(asked, UniformFrames() if asked.sampling is None else asked.sampling)

    def _open(self, asked: SampleOptions, sampler: Sampler) -> None:
        self._open_planned(asked, lambda shard: self._opened(asked, sampler, shard))

    @property
    def too_short(self) -> tuple[int, ...]:
        """Places of the videos, or rows, that `boundary="skip"` leaves out."""
        short = self._epochs.order(0).too_short
        if self._rows is None:
            return tuple(self._videos.number[[*short]].tolist())
        return short

    def _opened(self, asked: SampleOptions, sampler: Sampler, shard: Shard) -> SampledFrom:
        name = type(self).__name__
        check_kind(sampler, self._SAMPLES, taker=name, instead=self._INSTEAD)
        sampled = SampledSet.open(
            asked.videos,
            skip_bad=asked.skips_bad,
            index_store=asked.index_store,
            rank=shard.rank,
            ranks=shard.ranks,
        )
        videos, self._rows = sampled.videos, sampled.rows
        videos.check_fit(asked.fit)
        use = videos.use(seed=asked.seed, batch_size=asked.batch_size, ranks=shard.ranks)
        rows = self._rows
        decoded = videos.decoded_population.gop_lengths
        return SampledFrom(
            videos=videos,
            sampler=(videos if self._rows is None else self._rows).adapted(sampler, use),
            gop_lengths=decoded if rows is None else rows.decoded_gop_lengths(videos),
            skipped=sampled.skipped,
        )

    def _batch(self, step: StepSamples[Any]) -> Batch:
        self._count(step, step.frames.size)
        order = self._epochs.order(step.step.epoch)
        is_pad = np.zeros(step.frames.shape, np.bool_)
        row = None if order.rows_at is None else order.rows_at(step.drawn)
        batch = Batch.of(
            self._videos,
            step.frames,
            self._collate.pictures(step.pixels),
            step.is_concealed,
            step.step.is_repeated,
            is_pad if order.is_pad_at is None else order.is_pad_at(step.drawn),
            row,
            None if self._rows is None or row is None else self._rows.columns(row),
            None if self._rows is None else self._rows.manifest.classes,
        )
        return self._collate.transformed(batch, lambda: self._seeds(step.step))


@dataclass(frozen=True, kw_only=True)
class ClipLoaderOptions(SampleOptions):
    """What may be asked of a `ClipLoader`.

    Args:
        clips: Which clips, in which order; None means `RandomClips(num_frames=16, stride=2)`.
    """

    batch_size: int = 8
    clips: Sampler | None = None


class ClipLoader(FrameLoader):
    """Batches of clips: as `FrameLoader`, and `frames` are uint8 [N, T, 3, H, W].

        with ClipLoader(videos, clips=RandomClips(num_frames=16, stride=2)) as loader:
            for batch in loader: ...

    An epoch of `RandomClips` takes each video once, one of `UniformClips` each clip once.
    Arguments are the fields of `ClipLoaderOptions`, which extends `SampleOptions`.
    """

    _SAMPLES = "clips"
    _INSTEAD = (
        "give it to FrameLoader, as sampling=, or take one of clips, such as "
        "RandomClips(num_frames=16)"
    )

    @takes(ClipLoaderOptions)
    def __init__(self, asked: ClipLoaderOptions) -> None:
        """Open the index of every video; 1 ms for one that was seen before. Decodes nothing yet."""
        clips = RandomClips(num_frames=16, stride=2) if asked.clips is None else asked.clips
        self._open(asked, clips)
