"""PlannedLoader: what loaders of frames, clips and camera windows have in common."""

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open_decoder import check_opens
from headrace.decode.protocol import DecodeCounters, OnError, check_on_error
from headrace.errors import ConfigError, MediaError
from headrace.loaders.decode_engine import Engine, StepSamples
from headrace.loaders.epochs import Epochs, RankBatch
from headrace.loaders.frame_memory import memory_of
from headrace.loaders.frame_views import SampleViews
from headrace.loaders.job_decoder import JobDecoder
from headrace.loaders.loader_options import LoaderOptions
from headrace.loaders.loader_statistics import LoaderStatistics, Running
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.loaders.quarantine import Quarantine
from headrace.loaders.ranks import agreement, shard_of
from headrace.loaders.resumable import BatchOf, ResumableLoader
from headrace.loaders.state import Position
from headrace.loaders.video_set import VideoSet, population_for
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.epoch_order import Shard
from headrace.sampling.sampler import Sampler
from headrace.units import check_switches, one_of, parse_bytes
from headrace.video.frame_format import Fit, FrameFormat, Interpolation, Layout, PixelType
from headrace.video.frame_loss import FrameLoss

MAX_OPEN_FILES: Final = 128
"""At most, however large the budget is."""
_SHARE: Final = 16
"""They take up to this part of the budget, on top of it: a sixteenth."""
_OPEN_FILE_BYTES: Final = 750_000
"""Measured: a container and a scaler of 720p H.264 in MP4 that wait for their next job."""


def max_open_files(memory_budget: int) -> int:
    """Return how many files may stay open beside a budget of so many bytes: 1 to 128."""
    return max(1, min(MAX_OPEN_FILES, memory_budget // _SHARE // _OPEN_FILE_BYTES))


OnBad = Literal["raise", "skip", "conceal", "mask"]
"""What bad media does: as `OnError`; or, where a sample shows many frames, what cannot be decoded
comes black and masked, and the rest of the sample as it is."""


@dataclass(frozen=True, kw_only=True)
class PlannedOptions(LoaderOptions):
    """What may be asked of a loader that plans its decoding.

    Args:
        batch_size: Samples in a batch of this rank; the last one of an epoch may have fewer.
        size: (height, width) of the frames; None keeps that of the videos, if it is one.
        fit: Where `size` has another aspect ratio: `stretch`, `cover` (cut what reaches beyond) or
            `contain` (all of it, on black).
        interpolation: How frames are resized: `area`, or torchvision's antialiased `bilinear` or
            `bicubic`, at about twice the cost.
        dtype: `uint8`, or `uint16`, in twice the bytes, for video of more than 8 bits.
        memory_budget: Bytes, as a number or like "256MiB", for frames that are decoded and
            wait, for two batches, and for codecs, some 11 MB for each worker at 720p (of more
            than a quarter of the budget, the rest comes on top). Open files, in up to a sixteenth
            of it, come on top. Where frames stay on a GPU, it is the memory of that GPU, and what
            its codecs hold comes on top.
        hold: How decoded frames wait: `rgb` exactly; `yuv420` in half the bytes, so that twice as
            many fit, and delivered with colour at half the resolution.
        lookahead: Requests for single frames that are planned together, those of a clip always;
            None takes as many as the budget is expected to hold, and begins with those of one
            batch, so that the first comes as soon as without looking ahead; whoever reads a set
            only once has it decoded less often with a number. 1 is naive random access.
        seed: Another one gives other batches; None keeps that of the sampler, which is 0 by
            default. Beside a sampler with a seed of its own, above 0, it must be equal.
        drop_last: Leave out the last batch of an epoch if it is smaller; one must be left.
        on_error: What bad media does. With `skip`, a video that cannot be opened is left out,
            and a sample that cannot be decoded is replaced by another draw, by a rule that
            timing plays no part in; both are counted, and listed in `quarantined`. With `conceal`,
            a damaged frame is delivered as FFmpeg shows it, and marked in `Batch.is_concealed`.
            With either, ranks of torch.distributed compare what they left out, so each must open
            its loader.
        quarantine: A file that bad frames are listed in, too; the next run leaves them alone from
            the start, with the same batches.
        prefetch_next_epoch: Decode ahead into the next epoch while one ends. False ends all threads
            with each epoch: for evaluation.
    """

    _ON_ERROR: ClassVar[tuple[str, ...]] = get_args(OnError)
    """What `on_error` may be."""

    batch_size: int
    size: tuple[int, int] | None = (256, 256)
    fit: Fit = "stretch"
    interpolation: Interpolation = "area"
    dtype: PixelType = "uint8"
    hold: Layout = "rgb"
    seed: int | None = None
    drop_last: bool = False
    on_error: OnBad = "raise"
    quarantine: str | os.PathLike[str] | None = None
    prefetch_next_epoch: bool = True

    def check(self) -> None:
        """Refuse what is out of range, or no choice: ConfigError; a GPU that is not here."""
        super().check()
        one_of(Layout, hold=self.hold)
        check_on_error(self.on_error, self._ON_ERROR)
        check_switches(drop_last=self.drop_last, prefetch_next_epoch=self.prefetch_next_epoch)
        self.shape(self.size, "rgb")  # refuses impossible sizes
        if self.hold != "rgb" and self.dtype != "uint8":
            raise ConfigError(
                f"hold={self.hold!r} keeps 8 bits, and dtype={self.dtype!r} was asked for; leave "
                "out one of the two"
            )

    def shape(self, size: tuple[int, int] | None, layout: Layout) -> FrameFormat:
        """Return what frames are made into, as they wait in a layout. Raises as `FrameFormat`."""
        return FrameFormat(
            size=size,
            fit=self.fit,
            interpolation=self.interpolation,
            layout=layout,
            dtype=self.dtype,
        )

    @property
    def skips_bad(self) -> bool:
        """Whether bad media is left out, concealed or masked, so that ranks may differ."""
        return self.on_error != "raise"

    @property
    def masks_bad(self) -> bool:
        """Whether a sample is delivered without its bad frames, in place of another one."""
        return self.on_error == "mask"

    @property
    def quarantine_path(self) -> Path | None:
        """The file that bad frames are listed in."""
        return None if self.quarantine is None else Path(self.quarantine)


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledFrom:
    """What a loader samples from."""

    videos: VideoSet
    sampler: Sampler
    """Adapted to this use of them."""
    gop_lengths: NDArray[np.int64]
    """int64 [GOPs]: frames of each that may be sampled, of those that have any."""
    skipped: tuple[MediaError, ...]
    """Why the rest of what was given cannot be sampled."""
    framings: SampleViews | None = None
    """How frames become pictures, in place of `size`, by video and by sample; None: all alike."""


class PlannedLoader(ResumableLoader[StepSamples[Any], BatchOf]):
    """Batches of frames that a sampler chooses, and that are decoded by a plan.

    What a batch is made of is said by `_batch` of those that stand on it.
    """

    _PLACE = "slot"
    _NEEDED = "videos and rows in the same order, sampling and seed"

    def _open_planned(
        self, asked: PlannedOptions, open_set: Callable[[Shard], SampledFrom]
    ) -> None:
        """Open what is sampled, and decide how far to look ahead. Decodes nothing."""
        super().__init__(
            clock=asked.clock,
            prefetch_next_epoch=asked.prefetch_next_epoch,
            on_early_exit=asked.on_early_exit,
        )
        self._asked = asked
        self._frames_delivered = self._samples_substituted = 0
        with agreement(asked.rank is None and asked.skips_bad) as opened:
            asked.check()
            self._chooser = asked.chooser()
            self._workers = asked.thread_count()
            self._collate = asked.collate()
            shard = shard_of(asked.rank, asked.num_replicas, drop_last=asked.drop_last)
            found = open_set(shard)
            self._videos, self._skipped = found.videos, found.skipped
            self._framings = found.framings
            if found.framings is not None:
                size = found.framings.size
            else:
                size = self._videos.common_size() if asked.size is None else asked.size
            self._shape = asked.shape(size, asked.hold)
            self._held_bytes = self._shape.frame_bytes(size)
            check_opens(self._videos.indexes, self._shape, asked.decoder())
            self._epochs = self._planned(asked, found.sampler, shard)
            self._window = self._widest_window(
                asked, found.gop_lengths, asked.shape(size, "rgb").frame_bytes(size)
            )
            opened.checksum, opened.skipped = self._identity()["checksum"], len(self.skipped_videos)

    @property
    def lookahead(self) -> int:
        """Requests for single frames that are planned together."""
        return self._window.lookahead

    @property
    def statistics(self) -> LoaderStatistics:
        """What the loader did so far."""
        spent, running = self._spent, self._running
        return LoaderStatistics(
            frames_delivered=self._frames_delivered,
            frames_decoded=spent.decode_counters.frames_decoded,
            samples_substituted=self._samples_substituted,
            videos_skipped=len(self._videos.skipped),
            frames_quarantined=len(self._epochs.quarantine),
            seeks=spent.decode_counters.seeks,
            opens=spent.decode_counters.opens,
            bytes_read=spent.decode_counters.bytes_read,
            held_bytes=self._held_bytes * (running.engine.room.taken if running else 0),
            most_held_bytes=self._held_bytes * spent.most_taken,
            starved_seconds=self._starved_seconds,
            blocked_seconds=spent.blocked_seconds,
            decoded_by=None if self._chooser is None else self._chooser.decoded_by,
        )

    @property
    def decode_counters(self) -> DecodeCounters:
        """What decoding cost so far."""
        return self._spent.decode_counters

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """Why what cannot be sampled is left out: videos, rows, clips; each error names a file."""
        return self._skipped

    @property
    def quarantined(self) -> tuple[FrameLoss, ...]:
        """What is known to be bad and left alone: frames, and whole videos."""
        return self._epochs.quarantine.entries

    def _planned(self, asked: PlannedOptions, sampler: Sampler, shard: Shard) -> Epochs:
        epochs = Epochs(
            sampling=sampler,
            population=population_for(sampler.traits, self._videos),
            quarantine=Quarantine(self._videos, asked.quarantine_path),
            seed=sampler.traits.seed_or(asked.seed or 0),
            batch_size=asked.batch_size,
            shard=shard,
            drop_last=asked.drop_last,
            replaces_bad=not asked.masks_bad,
        )
        epochs.num_steps()  # refuses a batch that no epoch fills, where smaller ones are left out
        return epochs

    def _widest_window(
        self, asked: PlannedOptions, gop_lengths: NDArray[np.int64], frame_bytes: int
    ) -> LookaheadWindow:
        traits, lookahead = self._epochs.sampling.traits, asked.lookahead
        sample_frames = traits.num_frames or 1
        are_shared = self._framings is None or not self._framings.is_by_sample
        if lookahead is not None and lookahead >= 1:
            lookahead = max(lookahead, sample_frames)
        return LookaheadWindow.of(
            gop_lengths,
            memory_budget=parse_bytes(asked.memory_budget),
            frame_bytes=frame_bytes,
            held_bytes=self._held_bytes,
            codec_bytes=self._workers * self._videos.codec_bytes,
            batch_frames=sample_frames * self._epochs.largest_step,
            each_once=not (traits.has_replacement and are_shared),
            lookahead=lookahead,
        )

    def _begin(self, start: Position) -> Running[StepSamples[Any]]:
        asked, decoding = self._asked, self._asked.decoder()
        most_open = max_open_files(parse_bytes(asked.memory_budget))
        conceals = asked.on_error == "conceal"
        engine = Engine(
            self._epochs,
            JobDecoder(
                self._videos,
                memory_of(self._shape, decoding, self._chooser),
                # A decoder of either has the file open on both ways.
                most_open if self._chooser is None else max(1, most_open // self._chooser.num_ways),
                conceals=conceals,
                decoding=decoding,
                framings=self._framings,
            ),
            self._window,
            workers=self._workers if self._chooser is None else self._chooser.threads,
            skip_bad=asked.skips_bad and not asked.masks_bad,
            masks_bad=asked.masks_bad,
            stall_seconds=asked.stall_seconds,
            clock=asked.clock,
        )
        last = None if asked.prefetch_next_epoch else start.epoch + 1
        return Running(engine=engine, steps=engine.run(self._epochs.steps(start, last)))

    @property
    def _is_random(self) -> bool:
        return self._epochs.sampling.traits.is_random

    def _after(self, step: StepSamples[Any]) -> Position:
        return step.step.after

    def _count(self, step: StepSamples[Any], frames: int) -> None:
        """Count what a step delivers: so many frames, and its substitutes."""
        self._frames_delivered += frames
        if len(self._epochs.quarantine):
            planned = self._epochs.order(step.step.epoch).at(step.step.slots)
            differs = (step.frames != planned).reshape(len(planned), -1).any(1)
            self._samples_substituted += int(differs.sum())

    def _seeds(self, step: RankBatch) -> list[int]:
        """Return what the transform of each sample begins from."""
        draws = CounterRng(seed=self._epochs.seed, epoch=step.epoch, purpose=RngStream.TRANSFORM)
        return [int(each) for each in draws.words(step.slots)]

    def _steps_left(self, at: Position) -> int:
        return self._epochs.num_steps(at.place)

    def _identity(self) -> dict[str, int]:
        """Return what a state belongs to. Sampling and seed are in the checksum too."""
        sampling = self._epochs.sampling.traits.identity.encode()
        return {
            "seed": self._epochs.seed,
            "videos": len(self._videos.indexes),
            "frames": self._videos.population.num_frames,
            "checksum": zlib.crc32(sampling, self._videos.checksum),
        }
