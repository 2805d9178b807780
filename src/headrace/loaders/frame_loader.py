"""PlannedLoader, FrameLoader and ClipLoader: batches of sampled frames with planned decoding."""

import zlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open_decoder import check_can_decode
from headrace.decode.protocol import DecodeCounters, OnError
from headrace.errors import MediaError
from headrace.loaders.batch import Batch
from headrace.loaders.decode_engine import Engine
from headrace.loaders.epochs import Epochs, Position, RankBatch, StepSamples
from headrace.loaders.frame_memory import FrameMemory
from headrace.loaders.hold_choice import HoldChoice
from headrace.loaders.job_decoder import FrameViews, JobDecoder
from headrace.loaders.loader_options import PlannedOptions, takes
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.loaders.quarantine import Quarantine
from headrace.loaders.resumable import BatchOf, LoaderStatistics, ResumableLoader, Running
from headrace.loaders.sampled_set import Given, SampledSet
from headrace.loaders.spill import Spill
from headrace.loaders.video_set import VideoSet
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.frame_samplers import UniformFrames
from headrace.sampling.sampler import SampleKind, Sampler, Shard, check_kind
from headrace.units import parse_bytes
from headrace.video.frame_loss import FrameLoss

MAX_OPEN_FILES: Final = 128
"""Max files that stay open, for any budget."""
_SHARE: Final = 16
"""Memory budget ÷ memory of open files, which comes on top of the budget."""
_OPEN_FILE_BYTES: Final = 750_000
"""Bytes of an idle container and scaler, measured: 720p H.264 in MP4."""


def max_open_files(memory_budget: int) -> int:
    """Return the max number of files that stay open with a budget in bytes: 1 to 128."""
    return max(1, min(MAX_OPEN_FILES, memory_budget // _SHARE // _OPEN_FILE_BYTES))


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledFrom:
    """Videos and sampler of a loader."""

    videos: VideoSet
    sampler: Sampler
    """Bound to these videos and batches."""
    gop_lengths: NDArray[np.int64]
    """int64 [GOPs]: frames that may be sampled of each decoded GOP; GOPs without any are left
    out."""
    skipped: tuple[MediaError, ...]
    """Errors of skipped videos, rows or clips."""
    views: FrameViews | None = None
    """Views by video and sample; None: each frame has one view."""
    size: tuple[int, int] | None = None
    """(height, width) of the frames; None: by the options, or the size of the videos."""


class PlannedLoader(ResumableLoader[StepSamples, BatchOf]):
    """Loader of frames that a sampler selects, with planned decoding.

    A subclass opens the media (`_open_set`) and creates the batches (`_batch`).
    """

    _OFFSET_KEY = "slot"
    _NEEDED = "videos and rows in the same order, sampling and seed"

    _options: PlannedOptions

    def __init__(self, options: PlannedOptions) -> None:
        """Open the media, and compute the lookahead window. Decodes nothing."""
        self._frames_delivered = self._samples_substituted = 0
        self._filled: LoaderStatistics | None = None
        super().__init__(options)

    @abstractmethod
    def _open_set(self, shard: Shard) -> SampledFrom:
        """Open the media; all ranks of `shard` open the same."""

    def _open(self, shard: Shard) -> int:
        options, sampled = self._options, self._open_set(shard)
        self._videos, self._skipped = sampled.videos, sampled.skipped
        self._frame_views = sampled.views or FrameViews(videos=self._videos)
        size = sampled.size or options.size or self._videos.common_size()
        self._shape = options.shape(size, options.held_layout)
        check_can_decode(self._videos.indexes, self._shape, options.decoder())
        self._epochs = self._plan_epochs(sampled.sampler, shard)
        frame_bytes = options.shape(size, "rgb").frame_bytes(size)
        self._spill = self._open_spill()
        self._choice = self._hold_choice(sampled.gop_lengths, frame_bytes)
        return len(self._skipped)

    @property
    def lookahead(self) -> int:
        """Frame requests that are planned together; grows once frames wait packed."""
        return self._choice.window.lookahead

    @property
    def statistics(self) -> LoaderStatistics:
        """Counts since the loader was created."""
        running = self._running
        return LoaderStatistics(
            **self._decode_statistics(),
            frames_delivered=self._frames_delivered,
            samples_substituted=self._samples_substituted,
            videos_skipped=len(self._videos.skipped),
            frames_quarantined=len(self._epochs.quarantine),
            held_bytes=running.engine.room.in_use if running else 0,
            most_held_bytes=self._totals.max_taken,
            packed=self._choice.facts,
            spill=None if self._spill is None else self._spill.store.state(),
        )

    @property
    def decode_counters(self) -> DecodeCounters:
        """Decode counters since the loader was created."""
        return self._totals.decode_counters

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """Errors of skipped videos, rows and clips; each names the file."""
        return self._skipped

    @property
    def quarantined(self) -> tuple[FrameLoss, ...]:
        """Known bad frames and videos, which are not sampled."""
        return self._epochs.quarantine.entries

    def _plan_epochs(self, sampler: Sampler, shard: Shard) -> Epochs:
        options, videos, is_timed = self._options, self._videos, sampler.traits.needs_durations
        epochs = Epochs(
            sampling=sampler,
            population=videos.timed_population() if is_timed else videos.population,
            quarantine=Quarantine(self._videos, options.quarantine),
            seed=sampler.traits.seed_or(options.seed or 0),
            batch_size=options.batch_size,
            shard=shard,
            drop_last=options.drop_last,
            replaces_bad=not options.masks_bad,
        )
        epochs.num_steps()  # raises if drop_last leaves no batch
        return epochs

    def _hold_choice(self, gop_lengths: NDArray[np.int64], frame_bytes: int) -> HoldChoice:
        options, traits = self._options, self._epochs.sampling.traits
        sample_frames, lookahead = traits.num_frames or 1, options.lookahead
        if lookahead is not None and lookahead >= 1:
            lookahead = max(lookahead, sample_frames)
        assert self._shape.size is not None
        self._window = window = partial(
            LookaheadWindow.of,
            gop_lengths,
            memory_budget=parse_bytes(options.memory_budget),
            frame_bytes=frame_bytes,
            due_bytes=self._shape.frame_bytes(self._shape.size),
            codec_bytes=options.thread_count() * self._videos.codec_bytes,
            batch_frames=sample_frames * self._epochs.largest_step,
            sample_frames=sample_frames,
            in_order=not traits.is_random,
            each_once=self._frame_views.is_by_sample or not traits.has_replacement,
            lookahead=lookahead,
        )
        return HoldChoice(
            hold="rgb" if options.decoder().keeps_on_device else options.hold,
            shape=self._shape,
            window_of=lambda later_bytes: window(later_bytes=later_bytes),
            gop_lengths=gop_lengths,
            sample_frames=sample_frames,
            is_random=traits.is_random,
            clock=options.clock,
            packing=None if self._spill is None else self._spill.packing,
        )

    def _open_spill(self) -> Spill | None:
        options, views = self._options, self._frame_views
        store = options.open_spill(is_augmented=views.is_augmented)
        if store is None:
            return None
        geometries = [views.geometry(video, 0) for video in range(len(self._videos.indexes))]
        return Spill(
            store=store,
            videos=self._videos,
            shapes=[geometry.shape if geometry else self._shape for geometry in geometries],
            decoding=options.decoder(),
        )

    def _begin(self, start: Position) -> Running[StepSamples]:
        options, scheduler = self._options, self._scheduler
        decoding, max_open = options.decoder(), max_open_files(parse_bytes(options.memory_budget))
        if scheduler is not None:  # its decoders open a file per device
            max_open = max(1, max_open // scheduler.num_devices)
        decoder = JobDecoder(
            views=self._frame_views,
            memory=FrameMemory(self._shape, decoding),
            max_open=max_open,
            conceals=options.on_error == "conceal",
            decoding=decoding,
            scheduler=scheduler,
            spill=self._spill,
        )
        engine = Engine(self._epochs, decoder, self._choice, options, num_threads=self._num_threads)
        stop_epoch = None if options.prefetch_next_epoch else start.epoch + 1
        return Running(engine=engine, steps=engine.run(self._epochs.steps(start, stop_epoch)))

    @property
    def _is_random(self) -> bool:
        return self._epochs.sampling.traits.is_random

    def _after(self, step: StepSamples) -> Position:
        return step.requests.after

    def _count(self, step: StepSamples, frames: int) -> None:
        """Count the delivered frames and the substitutes of a step."""
        self._frames_delivered += frames
        if not (self._filled or self._choice.is_open or self._frames_delivered < self.lookahead):
            self._filled = self.statistics
        if len(self._epochs.quarantine):
            planned = self._epochs.order(step.requests.epoch).at(step.requests.slots)
            differs = (step.frames != planned).reshape(len(planned), -1).any(1)
            self._samples_substituted += int(differs.sum())

    def _seeds(self, step: RankBatch) -> Iterator[int]:
        """Yield the seed of each sample's transform."""
        draws = CounterRng(seed=self._epochs.seed, epoch=step.epoch, purpose=RngStream.TRANSFORM)
        yield from map(int, draws.words(step.slots))

    def _steps_left(self, position: Position) -> int:
        return self._epochs.num_steps(position.offset)

    def _identity(self) -> dict[str, int]:
        sampling = self._epochs.sampling.traits.identity.encode()
        return {
            "seed": self._epochs.seed,
            "videos": len(self._videos.indexes),
            "frames": self._videos.population.num_frames,
            # The checksum includes sampling and seed.
            "checksum": zlib.crc32(sampling, self._videos.checksum),
        }


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
        """Indices of videos or rows that `boundary="skip"` skips."""
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
        context = sampled.sampler_context(
            seed=options.seed, batch_size=options.batch_size, ranks=shard.ranks
        )
        return SampledFrom(
            videos=sampled.videos,
            sampler=sampled.bind(self._sampler, context),
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
