"""PlannedLoader: what loaders of frames, clips and camera windows have in common."""

import zlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open_decoder import check_can_decode
from headrace.decode.protocol import DecodeCounters
from headrace.errors import MediaError
from headrace.loaders.decode_engine import Engine, LookaheadWindow, StepSamples
from headrace.loaders.epochs import Epochs, Position, RankBatch
from headrace.loaders.frame_memory import memory_of
from headrace.loaders.job_decoder import JobDecoder, SampleViews
from headrace.loaders.loader_options import PlannedOptions
from headrace.loaders.quarantine import Quarantine
from headrace.loaders.resumable import BatchOf, LoaderStatistics, ResumableLoader, Running
from headrace.loaders.video_set import VideoSet, population_for
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.epoch_order import Shard
from headrace.sampling.sampler import Sampler
from headrace.units import parse_bytes
from headrace.video.frame_loss import FrameLoss

MAX_OPEN_FILES: Final = 128
"""Files that stay open at most, whatever the budget."""
_SHARE: Final = 16
"""Open files take up to a sixteenth of the budget, on top of it."""
_OPEN_FILE_BYTES: Final = 750_000
"""Bytes, measured: a container and a scaler of 720p H.264 in MP4 that wait for their next job."""


def max_open_files(memory_budget: int) -> int:
    """Return how many files may stay open beside a budget of bytes: 1 to 128."""
    return max(1, min(MAX_OPEN_FILES, memory_budget // _SHARE // _OPEN_FILE_BYTES))


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledFrom:
    """Videos and the sampler of a loader."""

    videos: VideoSet
    sampler: Sampler
    """Adapted to these videos and batches."""
    gop_lengths: NDArray[np.int64]
    """int64 [GOPs]: frames of each decoded GOP that may be sampled; GOPs without any are not in."""
    skipped: tuple[MediaError, ...]
    """Errors of what was given and cannot be sampled."""
    framings: SampleViews | None = None
    """View of each frame by video and by sample, in place of `size`; None: one view for all."""


class PlannedLoader(ResumableLoader[StepSamples[Any], BatchOf]):
    """Batches of frames that a sampler chooses and a plan decodes.

    A subclass opens the videos and makes the batches (`_batch`).
    """

    _OFFSET_KEY = "slot"
    _NEEDED = "videos and rows in the same order, sampling and seed"

    _options: PlannedOptions

    def __init__(self, options: PlannedOptions) -> None:
        """Open what is sampled, and choose the look-ahead. Decodes nothing."""
        self._frames_delivered = self._samples_substituted = 0
        super().__init__(options)

    @abstractmethod
    def _open_set(self, shard: Shard) -> SampledFrom:
        """Open what is sampled; all ranks of `shard` open the same."""

    def _open(self, shard: Shard) -> int:
        options, sampled = self._options, self._open_set(shard)
        self._videos, self._skipped = sampled.videos, sampled.skipped
        self._framings = sampled.framings
        if sampled.framings is not None:
            size = sampled.framings.size
        else:
            size = self._videos.common_size() if options.size is None else options.size
        self._shape = options.shape(size, options.hold)
        self._held_bytes = self._shape.frame_bytes(size)
        check_can_decode(self._videos.indexes, self._shape, options.decoder())
        self._epochs = self._plan_epochs(sampled.sampler, shard)
        frame_bytes = options.shape(size, "rgb").frame_bytes(size)
        self._window = self._widest_window(sampled.gop_lengths, frame_bytes)
        return len(self._skipped)

    @property
    def lookahead(self) -> int:
        """Requests for single frames that are planned together."""
        return self._window.lookahead

    @property
    def statistics(self) -> LoaderStatistics:
        """Counts since the loader was made."""
        running = self._running
        return LoaderStatistics(
            **self._decode_statistics(),
            frames_delivered=self._frames_delivered,
            samples_substituted=self._samples_substituted,
            videos_skipped=len(self._videos.skipped),
            frames_quarantined=len(self._epochs.quarantine),
            held_bytes=self._held_bytes * (running.engine.room.in_use if running else 0),
            most_held_bytes=self._held_bytes * self._totals.max_taken,
        )

    @property
    def decode_counters(self) -> DecodeCounters:
        """Counts of decoding since the loader was made."""
        return self._totals.decode_counters

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """Errors of skipped videos, rows and clips; each names its file."""
        return self._skipped

    @property
    def quarantined(self) -> tuple[FrameLoss, ...]:
        """Frames and whole videos that are known to be bad, and are not sampled."""
        return self._epochs.quarantine.entries

    def _plan_epochs(self, sampler: Sampler, shard: Shard) -> Epochs:
        options = self._options
        epochs = Epochs(
            sampling=sampler,
            population=population_for(sampler.traits, self._videos),
            quarantine=Quarantine(self._videos, options.quarantine),
            seed=sampler.traits.seed_or(options.seed or 0),
            batch_size=options.batch_size,
            shard=shard,
            drop_last=options.drop_last,
            replaces_bad=not options.masks_bad,
        )
        epochs.num_steps()  # refuses a batch larger than an epoch, with drop_last
        return epochs

    def _widest_window(self, gop_lengths: NDArray[np.int64], frame_bytes: int) -> LookaheadWindow:
        options, traits = self._options, self._epochs.sampling.traits
        sample_frames, lookahead = traits.num_frames or 1, options.lookahead
        are_shared = self._framings is None or not self._framings.is_by_sample
        if lookahead is not None and lookahead >= 1:
            lookahead = max(lookahead, sample_frames)
        return LookaheadWindow.of(
            gop_lengths,
            memory_budget=parse_bytes(options.memory_budget),
            frame_bytes=frame_bytes,
            held_bytes=self._held_bytes,
            codec_bytes=options.thread_count() * self._videos.codec_bytes,
            batch_frames=sample_frames * self._epochs.largest_step,
            each_once=not (traits.has_replacement and are_shared),
            lookahead=lookahead,
        )

    def _begin(self, start: Position) -> Running[StepSamples[Any]]:
        options, scheduler = self._options, self._scheduler
        decoding, max_open = options.decoder(), max_open_files(parse_bytes(options.memory_budget))
        if scheduler is not None:  # its decoders have a file open on each device
            max_open = max(1, max_open // scheduler.num_devices)
        decoder = JobDecoder(
            self._videos,
            memory_of(self._shape, decoding, scheduler),
            max_open,
            conceals=options.on_error == "conceal",
            decoding=decoding,
            framings=self._framings,
        )
        engine = Engine(
            self._epochs,
            decoder,
            self._window,
            options,
            num_threads=self._num_threads,
        )
        stop_epoch = None if options.prefetch_next_epoch else start.epoch + 1
        return Running(engine=engine, steps=engine.run(self._epochs.steps(start, stop_epoch)))

    @property
    def _is_random(self) -> bool:
        return self._epochs.sampling.traits.is_random

    def _after(self, step: StepSamples[Any]) -> Position:
        return step.step.after

    def _count(self, step: StepSamples[Any], frames: int) -> None:
        """Count the frames that a step delivers, and its substitutes."""
        self._frames_delivered += frames
        if len(self._epochs.quarantine):
            planned = self._epochs.order(step.step.epoch).at(step.step.slots)
            differs = (step.frames != planned).reshape(len(planned), -1).any(1)
            self._samples_substituted += int(differs.sum())

    def _seeds(self, step: RankBatch) -> list[int]:
        """Return the seed of each sample's transform."""
        draws = CounterRng(seed=self._epochs.seed, epoch=step.epoch, purpose=RngStream.TRANSFORM)
        return [int(word) for word in draws.words(step.slots)]

    def _steps_left(self, position: Position) -> int:
        return self._epochs.num_steps(position.offset)

    def _identity(self) -> dict[str, int]:
        sampling = self._epochs.sampling.traits.identity.encode()
        return {
            "seed": self._epochs.seed,
            "videos": len(self._videos.indexes),
            "frames": self._videos.population.num_frames,
            # Sampling and seed are in the checksum too.
            "checksum": zlib.crc32(sampling, self._videos.checksum),
        }
