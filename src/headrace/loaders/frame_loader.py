"""FrameLoader and ClipLoader: batches of sampled frames and clips, with planned decoding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.protocol import OnError
from headrace.loaders.batch_sheet import BatchNames, SheetOptions, sheet_of_batch
from headrace.loaders.collate import NamedTensors
from headrace.loaders.contact_sheet import ContactSheet
from headrace.loaders.epochs import StepSamples
from headrace.loaders.loader_options import PlannedOptions, takes
from headrace.loaders.planned_loader import PlannedLoader, SampledFrom
from headrace.loaders.sampled_set import Given, SampledSet
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.frame_samplers import UniformFrames
from headrace.sampling.sampler import SampleKind, Sampler, Shard, check_kind
from headrace.video.frames import Clip


@dataclass(frozen=True, kw_only=True)
class VideoOptions(PlannedOptions):
    """Options of a loader of frames or clips.

    Args:
        videos: Paths of the videos; or a `Manifest`, whose rows are sampled like videos, and whose
            columns are entries of each batch.
    """

    videos: Given = field(kw_only=False)
    on_error: OnError = "raise"


@dataclass(frozen=True, kw_only=True)
class FrameLoaderOptions(VideoOptions):
    """Options of a `FrameLoader`.

    Args:
        sampling: Choice and order of the frames; None: `UniformFrames()`.
    """

    batch_size: int = 128
    sampling: Sampler | None = None


@dataclass(frozen=True, kw_only=True)
class ClipLoaderOptions(VideoOptions):
    """Options of a `ClipLoader`.

    Args:
        clips: Choice and order of the clips; None: `RandomClips(num_frames=16, stride=2)`.
    """

    batch_size: int = 8
    clips: Sampler | None = None


class Batch(NamedTensors):
    """N samples in the planned order; a sample is a frame, or a clip of T frames.

    The other columns of a `Manifest` are entries too: `batch.label`, `batch["label"]`.
    """

    frames: torch.Tensor
    """uint8 [N, 3, H, W] in [0, 255], or [N, T, 3, H, W] for clips, RGB, upright, on the loader's
    device; uint16 in [0, 65535] with `dtype="uint16"`. With `transform` or `batch_transform`, their
    result. Channels are innermost in memory (`torch.channels_last`), as decoders write them and
    convolutions prefer. Owned by the caller."""
    video: torch.Tensor
    """int64 [N]: position of each sample's video in the given list."""
    index: torch.Tensor
    """int64 [N], or [N, T]: index of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [N], or [N, T]: presentation time of each frame, in seconds."""
    original_size: torch.Tensor
    """int64 [N, 2]: (height, width) of the video's upright frames, before they were resized."""
    is_concealed: torch.Tensor
    """bool [N], or [N, T]: whether the frame is damaged and concealed by FFmpeg; false without
    `on_error="conceal"`."""
    is_repeated: torch.Tensor
    """bool [N]: whether the sample was delivered before in this epoch. The first samples of an
    epoch are repeated at its end, so that all ranks have equally many. Leave them out of sums over
    all ranks, so that every sample counts once."""
    is_pad: torch.Tensor
    """bool [N], or [N, T]: whether the frame replaces one beyond the end of the video or segment:
    see `boundary` of the clip samplers."""
    row: torch.Tensor
    """int64 [N]: position of each sample's row in the manifest; for a list of videos, the same as
    `video`."""

    @classmethod
    def of(
        cls,
        sampled: SampledSet,
        frames: NDArray[np.int64],
        pixels: torch.Tensor,
        *,
        is_concealed: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        is_pad: NDArray[np.bool_],
        row: NDArray[np.int64] | None,
    ) -> Self:
        """Return the batch of `frames`, int64 [N] or [N, T] frame ids, with their `pixels`.

        `row` is None for a list of videos.
        """
        videos = sampled.videos
        video, index = videos.population.locate(frames)
        sample_video = video if video.ndim == 1 else video[:, 0]
        number, sizes = videos.number[sample_video], videos.sizes[sample_video]
        return cls(
            frames=pixels,
            video=torch.from_numpy(number),
            index=torch.from_numpy(index),
            pts_seconds=torch.from_numpy(videos.pts_seconds(video, index)),
            original_size=torch.from_numpy(sizes),
            is_concealed=torch.from_numpy(is_concealed),
            is_repeated=torch.from_numpy(is_repeated),
            is_pad=torch.from_numpy(is_pad),
            row=torch.from_numpy(number.copy() if row is None else row),
            **({} if row is None else sampled.columns(row)),
        ).with_names(
            BatchNames(
                videos=tuple(str(videos.indexes[k].source) for k in sample_video.tolist()),
                classes=sampled.classes,
            )
        )

    @classmethod
    def of_clip(cls, clip: Clip) -> Self:
        """Return a reader's clip as a batch of one, for `show` or a model.

            headrace.Batch.of_clip(reader.get_frames_played_in_range(0.5, 1.5, fps=6)).show()

        Entries: `frames`, uint8 (or uint16) [1, T, 3, H, W], which share the clip's memory;
        `index`, `pts_seconds` and `is_concealed`.
        """
        return cls(
            frames=torch.as_tensor(clip.frames).movedim(-1, -3)[None],
            index=torch.from_numpy(clip.index)[None],
            pts_seconds=torch.from_numpy(clip.pts_seconds)[None],
            is_concealed=torch.from_numpy(clip.is_concealed)[None],
        )

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        frames: int = 8,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the frames as a grid that a notebook displays; a clip is a row of frames in time.

            batch.show()
            batch.show(samples=[3, 7], mean=MEAN, std=STD).save("batch.png")

        Captions show video, index, time and label. Padded, repeated and concealed frames have a
        border and a note. A sheet has at most 1280 x 4096 pixels; its title counts the samples
        shown. Large frames are shrunk to at most 320 pixels a side, small ones enlarged by an
        integer factor.

        8-bit and 16-bit frames are shown as they are, and so are floats in [0, 1] or [0, 255].
        `mean` and `std` undo a normalization; without them, the minimum of all shown values is
        black and the maximum white.

        Args:
            samples: Number of samples from the first on, or their positions; None: 32 frames, or
                8 clips.
            frames: Max frames shown per clip, evenly from its first to its last; at most 16.
            mean: Mean of each channel that the normalization subtracted, for frames in [0, 1].
            std: Standard deviation of each channel that it divided by.

        Raises:
            ConfigError: a position is out of range, or the transformed `frames` are not images
                with 1 or 3 channels.
        """
        options = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_batch(self, self._names, options)


class FrameLoader(PlannedLoader[Batch]):
    """Batches of single frames from many videos; each iteration is one epoch.

        with FrameLoader(videos, batch_size=128, size=(256, 256)) as loader:
            while loader.epoch < 10:
                for batch in loader:
                    train(batch.frames)

    The sampler alone decides which frames a batch has: batches are the same, bit for bit, with any
    memory budget, lookahead and number of threads. The frames of a step, over all ranks, are the
    same for any number of ranks.

    Threads start with the first batch, stay for the next epoch, and end with `close`, with the
    `with` block, or with the loader. Only one thread may use a loader at a time. A state may be
    loaded with another number of threads or ranks, budget, batch size and lookahead.

    Arguments are the fields of `FrameLoaderOptions`, including inherited ones; `help` lists them.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, the
            sampling does not suit the videos or batches, videos have different sizes and `size` is
            None, or ranks of torch.distributed skip different videos.
        BackendError: the device is missing.
        OpenError, ScanError: a video cannot be read, and `on_error` is "raise".
    """

    _options: VideoOptions
    _SAMPLES: ClassVar[SampleKind] = "single frames"
    _INSTEAD: ClassVar[str] = (
        "pass it to ClipLoader as clips=, or use a sampler of frames, such as ShuffledFrames()"
    )

    @takes(FrameLoaderOptions)
    def __init__(self, options: FrameLoaderOptions) -> None:
        """Open the index of every video, in 1 ms if it was scanned before. Decodes nothing."""
        self._sampler = UniformFrames() if options.sampling is None else options.sampling
        super().__init__(options)

    @property
    def too_short(self) -> tuple[int, ...]:
        """Positions in the given list of videos, or rows of the manifest, that are shorter than a
        clip and skipped; only with `boundary="skip"` of the sampler of clips."""
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
        return SampledFrom(
            videos=sampled.videos,
            sampler=sampled.bind(
                self._sampler, seed=options.seed, batch_size=options.batch_size, ranks=shard.ranks
            ),
            gop_lengths=sampled.decoded_gop_lengths,
            skipped=sampled.skipped,
        )

    def _batch(self, step: StepSamples) -> Batch:
        self._count(step, step.frames.size)
        order = self._epochs.order(step.requests.epoch)
        batch = Batch.of(
            self._sampled,
            step.frames,
            self._collate.to_frames(step.pixels),
            is_concealed=step.is_concealed,
            is_repeated=step.requests.is_repeated,
            is_pad=np.zeros(step.frames.shape, np.bool_)
            if order.is_pad_at is None
            else order.is_pad_at(step.drawn),
            row=None if order.rows_at is None else order.rows_at(step.drawn),
        )
        return self._collate.apply_transforms(batch, self._seeds(step.requests))


class ClipLoader(FrameLoader):
    """Batches of clips: as `FrameLoader`, with `frames` uint8 [N, T, 3, H, W].

        with ClipLoader(videos, clips=RandomClips(num_frames=16, stride=2)) as loader:
            for batch in loader: ...

    An epoch of `RandomClips` has one clip of each video, an epoch of `UniformClips` each clip once.
    Arguments are the fields of `ClipLoaderOptions`, including inherited ones; `help` lists them.
    """

    _SAMPLES = "clips"
    _INSTEAD = (
        "pass it to FrameLoader as sampling=, or use a sampler of clips, such as "
        "RandomClips(num_frames=16)"
    )

    @takes(ClipLoaderOptions)
    def __init__(self, options: ClipLoaderOptions) -> None:
        """Open the index of every video, in 1 ms if it was scanned before. Decodes nothing."""
        default = RandomClips(num_frames=16, stride=2)
        self._sampler = default if options.clips is None else options.clips
        PlannedLoader.__init__(self, options)
