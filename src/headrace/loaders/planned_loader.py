"""PlannedLoader: loader of sampled frames with planned decoding; facts about its decoding."""

import zlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open_decoder import check_can_decode
from headrace.decode.packing import exact_planes
from headrace.decode.protocol import DecodeCounters
from headrace.decode.spilled_decoder import is_storable
from headrace.errors import MediaError
from headrace.loaders.augment import FrameViews
from headrace.loaders.decode_engine import Engine
from headrace.loaders.epochs import Epochs, Position, RankBatch, StepSamples
from headrace.loaders.frame_memory import FrameMemory, Spill
from headrace.loaders.hold_choice import HoldChoice, LookaheadWindow
from headrace.loaders.job_decoder import JobDecoder
from headrace.loaders.loader_options import PlannedOptions
from headrace.loaders.quarantine import Quarantine
from headrace.loaders.resumable import BatchOf, LoaderStatistics, ResumableLoader, Running
from headrace.loaders.video_set import VideoSet
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.frame_samplers import Bursts
from headrace.sampling.sampler import Sampler, Shard
from headrace.units import parse_bytes
from headrace.video.frames import FrameLoss

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
        """Known bad frames and videos, which are not sampled: one entry per frame. Frames of one
        decode have the same `cause`, which names the first of them."""
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
        window_of = partial(
            LookaheadWindow.of,
            gop_lengths,
            memory_budget=parse_bytes(options.memory_budget),
            size=self._shape.size,
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
            window_of=window_of,
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


_PACKED_RATIO, _PLANES_RATIO = 2, 3
"""Assumed min compression ratios of packed frames, and of frames that may be packed as exact
planes, if packing was not timed."""


@dataclass(frozen=True, kw_only=True)
class DecodingFacts:
    """Facts for a `profiling.run_records.DecodingRecord`, which documents the fields."""

    amplification: float
    starved_ms: float
    threads: int
    is_packed: bool
    store: Literal["used", "possible", "impossible"]
    store_amplification: float
    store_bytes: int | None = None
    pack_ms: float | None = None
    unpack_ms: float | None = None
    wider: str | None = None
    wider_amplification: float | None = None


def describe_decoding(loader: object) -> DecodingFacts | None:
    """Return the facts of a `PlannedLoader`; None: another loader, or its window is not filled yet.

    Until the window is filled, more frames are decoded than delivered. Takes milliseconds.
    """
    if not isinstance(loader, PlannedLoader) or loader._filled is None:
        return None
    before, now, choice = loader._filled, loader.statistics, loader._choice
    delivered = now.frames_delivered - before.frames_delivered
    if not delivered:
        return None
    amplification = (now.frames_decoded - before.frames_decoded) / delivered
    starved_seconds = (now.starved_seconds - before.starved_seconds) / delivered
    epochs, decoded_lengths = loader._epochs, loader._videos.decoded_population.gop_lengths
    batch_frames = choice.sample_frames * epochs.largest_step
    num_frames = len(choice.gop_lengths) * float(decoded_lengths.mean())  # in GOPs with samples
    optional: dict[str, Any] = {}
    if (stored := choice.stored_facts) is not None:
        optional["store_bytes"] = round(stored.bytes_per_frame * num_frames)
        optional["pack_ms"] = 1e3 * batch_frames * stored.pack_seconds
        optional["unpack_ms"] = 1e3 * batch_frames * stored.unpack_seconds
    expected = choice.expected_amplification(choice.window)
    if expected > 1 and (wider := _wider_window(loader)) is not None:
        # Disposable frames are decoded only if they are delivered: that scales the excess over 1
        # of both windows by the same factor.
        optional["wider"], window = wider
        wider_expected = choice.expected_amplification(window)
        scaled = 1 + (amplification - 1) * (wider_expected - 1) / (expected - 1)
        optional["wider_amplification"] = max(scaled, min(1.0, wider_expected))
    return DecodingFacts(
        amplification=amplification,
        starved_ms=1e3 * batch_frames * starved_seconds,
        threads=loader._num_threads,
        is_packed=choice.packing is not None,
        store="used" if loader._spill else "possible" if _can_store(loader) else "impossible",
        store_amplification=num_frames / (choice.sample_frames * len(epochs.order(0))),
        **optional,
    )


def _can_store(loader: PlannedLoader[Any]) -> bool:
    keeps_on_device = loader._options.decoder().keeps_on_device
    can_store = not (keeps_on_device or loader._frame_views.is_augmented)
    return can_store and all(map(is_storable, loader._videos.indexes))


def _wider_window(loader: PlannedLoader[Any]) -> tuple[str, LookaheadWindow] | None:
    """Return an option that widens the window, as text, and the wider window.

    None: only `spill` would help, or `expected_amplification` does not apply to the sampler.
    """
    options, choice = loader._options, loader._choice
    window_of = choice.window_of
    sampler, traits = loader._epochs.sampling, loader._epochs.sampling.traits
    if not traits.is_random or traits.spans_videos or isinstance(sampler, Bursts):
        return None
    later_bytes = None if choice.packing is None else choice.bytes_per_frame
    if options.lookahead is not None:
        advice = f"No lookahead={options.lookahead}, so that memory_budget decides"
        return advice, window_of(lookahead=None, later_bytes=later_bytes)
    if choice.hold in ("rgb", "yuv420") and not options.decoder().keeps_on_device:
        hold = "auto" if choice.hold == "rgb" else "packed_yuv420"
        advice = f'hold="{hold}", so that frames wait packed'
        ratio = _PACKED_RATIO if exact_planes(choice.shape) is None else _PLANES_RATIO
        return advice, window_of(later_bytes=choice.bytes_per_frame // ratio)
    if _can_store(loader):
        return None
    budget = parse_bytes(options.memory_budget)
    advice = f"Twice the memory_budget, {options.memory_budget}"
    return advice, window_of(memory_budget=2 * budget, later_bytes=later_bytes)
