"""FrameLoader: batches of exactly sampled frames, decoded by a plan."""

import math
import zlib
from dataclasses import dataclass

import numpy as np

from headrace.decode.protocol import DecodeCounters
from headrace.errors import MediaError
from headrace.sampling.frames import Uniform
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import Sampler
from headrace.sizes import parse_bytes
from headrace.training.arguments import takes
from headrace.training.batch import Batch
from headrace.training.decoding import JobDecoder
from headrace.training.engine import Engine, Samples
from headrace.training.epochs import Epochs, Step
from headrace.training.manifest.manifest import Manifest
from headrace.training.open_files import max_open_files
from headrace.training.quarantine import Quarantine
from headrace.training.ranks import agreement, shard_of
from headrace.training.resumable import ResumableLoader
from headrace.training.row_set import RowSet
from headrace.training.running import Running
from headrace.training.sample_options import SampleOptions
from headrace.training.state import Position
from headrace.training.statistics import LoaderStatistics
from headrace.training.video_set import VideoSet, population_for
from headrace.training.window import Window
from headrace.video.loss import Loss


@dataclass(frozen=True, kw_only=True)
class FrameOptions(SampleOptions):
    """What may be asked of a `FrameLoader`.

    Args:
        sampling: Which frames, in which order; None means `Uniform()`.
    """

    batch_size: int = 128
    sampling: Sampler | None = None


class FrameLoader(ResumableLoader[Samples, Batch]):
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

    Arguments are the fields of `FrameOptions`, which stands on `SampleOptions` and `LoaderOptions`;
    `help` tells them one by one.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, the
            videos or the batches do not suit the sampling, or videos have different sizes and none
            was asked for; or ranks under torch.distributed leave out different videos.
        BackendError: the device is not here.
        OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
    """

    _PLACE = "slot"
    _NEEDED = "videos and rows in the same order, sampling and seed"

    @takes(FrameOptions)
    def __init__(self, asked: FrameOptions) -> None:
        """Open the index of every video; 1 ms for one that was seen before. Decodes nothing yet."""
        self._open(asked, Uniform() if asked.sampling is None else asked.sampling)

    def _open(self, asked: SampleOptions, sampler: Sampler) -> None:
        super().__init__(
            clock=asked.clock, persistent=asked.persistent, left_early=asked.left_early
        )
        self._asked = asked
        self._frames_delivered = self._samples_substituted = 0
        with agreement(asked.rank is None and asked.skips_bad) as opened:
            asked.check()
            self._workers = asked.num_threads()
            self._collate = asked.collate()
            self._videos, self._rows = self._opened(asked)
            size = self._videos.common_size() if asked.size is None else asked.size
            self._shape = asked.shape(size, asked.hold)
            self._held_bytes = math.prod(self._shape.array_shape(size))
            self._epochs = self._planned(asked, sampler)
            self._window = self._widest_window(asked, frame_bytes=math.prod(size) * 3)
            opened.checksum, opened.left_out = self._identity()["checksum"], len(self.left_out)

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
            frames_decoded=spent.decoding.frames_decoded,
            samples_substituted=self._samples_substituted,
            videos_left_out=len(self._videos.left_out),
            frames_quarantined=len(self._epochs.quarantine),
            seeks=spent.decoding.seeks,
            opens=spent.decoding.opens,
            bytes_read=spent.decoding.bytes_read,
            held_bytes=self._held_bytes * (running.engine.room.taken if running else 0),
            most_held_bytes=self._held_bytes * spent.most_taken,
            starved_seconds=self._starved_seconds,
            blocked_seconds=spent.blocked_seconds,
        )

    @property
    def decoding(self) -> DecodeCounters:
        """What decoding cost so far."""
        return self._spent.decoding

    @property
    def left_out(self) -> tuple[MediaError, ...]:
        """Why videos that cannot be read, and rows without a frame, are left out; with the file."""
        return self._videos.left_out + (() if self._rows is None else self._rows.left_out)

    @property
    def too_short(self) -> tuple[int, ...]:
        """Places of the videos, or rows, that `boundary="skip"` leaves out."""
        short = self._epochs.order(0).too_short
        if self._rows is None:
            return tuple(self._videos.number[[*short]].tolist())
        return short

    @property
    def quarantined(self) -> tuple[Loss, ...]:
        """What is known to be bad and left alone: frames, and whole videos."""
        return self._epochs.quarantine.entries

    @staticmethod
    def _opened(asked: SampleOptions) -> tuple[VideoSet, RowSet | None]:
        if not isinstance(asked.videos, Manifest):
            return VideoSet.open(asked.videos, skip_bad=asked.skips_bad, store=asked.store), None
        manifest = asked.videos
        videos = VideoSet.open(manifest.videos, skip_bad=asked.skips_bad, store=asked.store)
        return videos, RowSet.open(manifest, videos, skip_bad=asked.skips_bad)

    def _planned(self, asked: SampleOptions, sampler: Sampler) -> Epochs:
        shard = shard_of(asked.rank, asked.num_replicas, drop_last=asked.drop_last)
        use = self._videos.use(seed=asked.seed, batch_size=asked.batch_size, ranks=shard.ranks)
        sampler = (self._videos if self._rows is None else self._rows).adapted(sampler, use)
        epochs = Epochs(
            sampling=sampler,
            population=population_for(sampler.traits, self._videos),
            quarantine=Quarantine(self._videos, asked.quarantine_path),
            seed=sampler.traits.seed_or(asked.seed or 0),
            batch_size=asked.batch_size,
            shard=shard,
            drop_last=asked.drop_last,
        )
        epochs.num_steps()  # refuses a batch that no epoch fills
        return epochs

    def _widest_window(self, asked: SampleOptions, *, frame_bytes: int) -> Window:
        traits, lookahead = self._epochs.sampling.traits, asked.lookahead
        clip_frames = traits.num_frames or 1
        sampled = self._videos if self._rows is None else self._rows.rows
        if lookahead is not None and lookahead >= 1:
            lookahead = max(lookahead, clip_frames)
        return Window.of(
            sampled.population.gop_lengths,
            memory_budget=parse_bytes(asked.memory_budget),
            frame_bytes=frame_bytes,
            held_bytes=self._held_bytes,
            codec_bytes=self._workers * self._videos.codec_bytes,
            batch_frames=clip_frames * asked.batch_size,
            each_once=not traits.has_replacement,
            lookahead=lookahead,
        )

    def _begin(self, start: Position) -> Running[Samples]:
        asked = self._asked
        most_open = max_open_files(parse_bytes(asked.memory_budget))
        conceals = asked.on_error == "conceal"
        engine = Engine(
            self._epochs,
            JobDecoder(
                self._videos,
                self._shape,
                most_open,
                conceals=conceals,
                decoding=asked.decoder(),
            ),
            self._window,
            workers=self._workers,
            skip_bad=asked.skips_bad,
            stall_seconds=asked.stall_seconds,
            clock=asked.clock,
        )
        last = None if asked.persistent else start.epoch + 1
        return Running(engine=engine, steps=engine.run(self._epochs.steps(start, last)))

    @property
    def _is_random(self) -> bool:
        return self._epochs.sampling.traits.is_random

    def _after(self, step: Samples) -> Position:
        return step.step.after

    def _batch(self, step: Samples) -> Batch:
        self._frames_delivered += step.frames.size
        if len(self._epochs.quarantine):
            planned = self._epochs.order(step.step.epoch).at(step.step.slots)
            differs = (step.frames != planned).reshape(len(planned), -1).any(1)
            self._samples_substituted += int(differs.sum())
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
        )
        return self._collate.transformed(batch, lambda: self._seeds(step.step))

    def _seeds(self, step: Step) -> list[int]:
        """Return what the transform of each sample begins from."""
        draws = Draws(seed=self._epochs.seed, epoch=step.epoch, purpose=Purpose.TRANSFORM)
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
