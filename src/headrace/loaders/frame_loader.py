"""FrameLoader and ClipLoader: batches of exactly sampled frames and clips, decoded by a plan."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from headrace.decode.protocol import OnError
from headrace.loaders.batch import Batch
from headrace.loaders.decode_engine import StepSamples
from headrace.loaders.loader_options import PlannedOptions, takes
from headrace.loaders.planned_loader import PlannedLoader, SampledFrom
from headrace.loaders.sampled_set import Given, SampledSet
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.epoch_order import Shard
from headrace.sampling.frame_samplers import UniformFrames
from headrace.sampling.sampler import SampleKind, Sampler, check_kind


@dataclass(frozen=True, kw_only=True)
class VideoOptions(PlannedOptions):
    """Options of a loader of frames or clips of videos.

    Args:
        videos: Paths of the videos; or a `Manifest`, whose rows are sampled as if each were a
            video, and whose columns come with each batch.
    """

    videos: Given = field(kw_only=False)
    on_error: OnError = "raise"


@dataclass(frozen=True, kw_only=True)
class FrameLoaderOptions(VideoOptions):
    """Options of a `FrameLoader`.

    Args:
        sampling: Which frames, in which order; None means `UniformFrames()`.
    """

    batch_size: int = 128
    sampling: Sampler | None = None


@dataclass(frozen=True, kw_only=True)
class ClipLoaderOptions(VideoOptions):
    """Options of a `ClipLoader`.

    Args:
        clips: Which clips, in which order; None means `RandomClips(num_frames=16, stride=2)`.
    """

    batch_size: int = 8
    clips: Sampler | None = None


class FrameLoader(PlannedLoader[Batch]):
    """Batches of single frames from many videos: iterate it once for each epoch.

        with FrameLoader(videos, batch_size=128, size=(256, 256)) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.frames)

    The sampler decides which frames a batch holds, the plan only how they are decoded: batches are
    the same, bit for bit, with any memory budget, look-ahead and number of threads. Steps are
    shared out so that all ranks together deliver the same frames in a step, whatever their number.

    Threads start with the first batch, stay for the next epoch, and end with `close`, with the
    `with` block, or with the loader. One thread may use a loader at a time. A state may be loaded
    with another number of threads or ranks, another budget, batch size and look-ahead.

    Arguments are the fields of `FrameLoaderOptions`, inherited ones included; `help` lists them.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, the
            videos or the batches do not suit the sampling, or videos have different sizes and
            `size` is None; or ranks under torch.distributed skip different videos.
        BackendError: the device is missing.
        OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
    """

    _options: VideoOptions
    _SAMPLES: ClassVar[SampleKind] = "single frames"
    _INSTEAD: ClassVar[str] = (
        "give it to ClipLoader, as clips=, or take one of frames, such as ShuffledFrames()"
    )

    @takes(FrameLoaderOptions)
    def __init__(self, options: FrameLoaderOptions) -> None:
        """Open the index of every video; 1 ms for a known file. Decodes nothing yet."""
        self._sampler = UniformFrames() if options.sampling is None else options.sampling
        super().__init__(options)

    @property
    def too_short(self) -> tuple[int, ...]:
        """Numbers of the videos, or rows, that `boundary="skip"` skips."""
        short = self._epochs.order(0).too_short
        if self._sampled.rows is None:
            return tuple(self._videos.number[[*short]].tolist())
        return short

    def _open_set(self, shard: Shard) -> SampledFrom:
        options, name = self._options, type(self).__name__
        check_kind(self._sampler, self._SAMPLES, taker=name, instead=self._INSTEAD)
        self._sampled = sampled = SampledSet.open(
            options.videos,
            skip_bad=options.skips_bad,
            index_store=options.index_store,
            rank=shard.rank,
            ranks=shard.ranks,
        )
        sampled.videos.check_fit(options.fit)
        context = sampled.use(seed=options.seed, batch_size=options.batch_size, ranks=shard.ranks)
        return SampledFrom(
            videos=sampled.videos,
            sampler=sampled.bind(self._sampler, context),
            gop_lengths=sampled.decoded_gop_lengths,
            skipped=sampled.skipped,
        )

    def _batch(self, step: StepSamples[Any]) -> Batch:
        self._count(step, step.frames.size)
        order = self._epochs.order(step.step.epoch)
        batch = Batch.of(
            self._sampled,
            step.frames,
            self._collate.pictures(step.pixels),
            is_concealed=step.is_concealed,
            is_repeated=step.step.is_repeated,
            is_pad=np.zeros(step.frames.shape, np.bool_)
            if order.is_pad_at is None
            else order.is_pad_at(step.drawn),
            row=None if order.rows_at is None else order.rows_at(step.drawn),
        )
        return self._collate.transformed(batch, lambda: self._seeds(step.step))


class ClipLoader(FrameLoader):
    """Batches of clips: as `FrameLoader`, with `frames` uint8 [N, T, 3, H, W].

        with ClipLoader(videos, clips=RandomClips(num_frames=16, stride=2)) as loader:
            for batch in loader: ...

    An epoch of `RandomClips` takes each video once, an epoch of `UniformClips` each clip once.
    Arguments are the fields of `ClipLoaderOptions`, inherited ones included.
    """

    _SAMPLES = "clips"
    _INSTEAD = (
        "give it to FrameLoader, as sampling=, or take one of clips, such as "
        "RandomClips(num_frames=16)"
    )

    @takes(ClipLoaderOptions)
    def __init__(self, options: ClipLoaderOptions) -> None:
        """Open the index of every video; 1 ms for a known file. Decodes nothing yet."""
        default = RandomClips(num_frames=16, stride=2)
        self._sampler = default if options.clips is None else options.clips
        PlannedLoader.__init__(self, options)
