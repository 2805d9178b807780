"""PlannedLoader: what loaders of frames, clips and camera windows have in common."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open import check_opens
from headrace.decode.protocol import DecodeCounters
from headrace.errors import MediaError
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import Sampler
from headrace.sampling.shards import Shard
from headrace.sizes import parse_bytes
from headrace.training.decoding import JobDecoder
from headrace.training.engine import Engine, Samples
from headrace.training.epochs import Epochs, Step
from headrace.training.frame_memory import memory_of
from headrace.training.open_files import max_open_files
from headrace.training.pictures import Framings
from headrace.training.planned_options import PlannedOptions
from headrace.training.quarantine import Quarantine
from headrace.training.ranks import agreement, shard_of
from headrace.training.resumable import BatchOf, ResumableLoader
from headrace.training.running import Running
from headrace.training.state import Position
from headrace.training.statistics import LoaderStatistics
from headrace.training.video_set import VideoSet, population_for
from headrace.training.window import Window
from headrace.video.loss import Loss


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledFrom:
    """What a loader samples from."""

    videos: VideoSet
    sampler: Sampler
    """Adapted to this use of them."""
    gop_lengths: NDArray[np.int64]
    """int64 [GOPs]: frames of each that may be sampled, of those that have any."""
    left_out: tuple[MediaError, ...]
    """Why the rest of what was given cannot be sampled."""
    framings: Framings | None = None
    """How frames become pictures, in place of `size`, by video and by sample; None: all alike."""


class PlannedLoader(ResumableLoader[Samples[Any], BatchOf]):
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
            clock=asked.clock, persistent=asked.persistent, left_early=asked.left_early
        )
        self._asked = asked
        self._frames_delivered = self._samples_substituted = 0
        with agreement(asked.rank is None and asked.skips_bad) as opened:
            asked.check()
            self._chooser = asked.chooser()
            self._workers = asked.num_threads()
            self._collate = asked.collate()
            shard = shard_of(asked.rank, asked.num_replicas, drop_last=asked.drop_last)
            found = open_set(shard)
            self._videos, self._left_out = found.videos, found.left_out
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
            decoded_by=None if self._chooser is None else self._chooser.decoded_by,
        )

    @property
    def decoding(self) -> DecodeCounters:
        """What decoding cost so far."""
        return self._spent.decoding

    @property
    def left_out(self) -> tuple[MediaError, ...]:
        """Why what cannot be sampled is left out: videos, rows, clips; each error names a file."""
        return self._left_out

    @property
    def quarantined(self) -> tuple[Loss, ...]:
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
    ) -> Window:
        traits, lookahead = self._epochs.sampling.traits, asked.lookahead
        sample_frames = traits.num_frames or 1
        are_shared = self._framings is None or not self._framings.is_by_sample
        if lookahead is not None and lookahead >= 1:
            lookahead = max(lookahead, sample_frames)
        return Window.of(
            gop_lengths,
            memory_budget=parse_bytes(asked.memory_budget),
            frame_bytes=frame_bytes,
            held_bytes=self._held_bytes,
            codec_bytes=self._workers * self._videos.codec_bytes,
            batch_frames=sample_frames * self._epochs.largest_step,
            each_once=not (traits.has_replacement and are_shared),
            lookahead=lookahead,
        )

    def _begin(self, start: Position) -> Running[Samples[Any]]:
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
        last = None if asked.persistent else start.epoch + 1
        return Running(engine=engine, steps=engine.run(self._epochs.steps(start, last)))

    @property
    def _is_random(self) -> bool:
        return self._epochs.sampling.traits.is_random

    def _after(self, step: Samples[Any]) -> Position:
        return step.step.after

    def _count(self, step: Samples[Any], frames: int) -> None:
        """Count what a step delivers: so many frames, and its substitutes."""
        self._frames_delivered += frames
        if len(self._epochs.quarantine):
            planned = self._epochs.order(step.step.epoch).at(step.step.slots)
            differs = (step.frames != planned).reshape(len(planned), -1).any(1)
            self._samples_substituted += int(differs.sum())

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
