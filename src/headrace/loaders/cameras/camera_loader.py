"""CameraLoader: batches of synchronized camera clips, each frame decoded once."""

import math
import zlib
from dataclasses import dataclass
from typing import Any

import torch

from headrace.decode.open_decoder import check_can_decode
from headrace.errors import MediaError, NoLengthError
from headrace.loaders.cameras.camera_batch import CameraBatch
from headrace.loaders.cameras.camera_engine import CameraEngine
from headrace.loaders.cameras.camera_memory import memory_of
from headrace.loaders.cameras.camera_options import CameraOptions, layout_for
from headrace.loaders.cameras.camera_schedule import CameraSchedule, CameraStep
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.loaders.loader_options import takes
from headrace.loaders.loader_statistics import DeliveryStatistics
from headrace.loaders.ranks import agreement, shard_of
from headrace.loaders.resumable import ResumableLoader, Running
from headrace.loaders.state import Position
from headrace.runtime.posix import files_to_keep_open
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.slots import (
    NO_LENGTH,
    ORDER,
    EndlessPlan,
    SlotPlan,
    SlotSchedule,
    TailCounts,
)


@dataclass(frozen=True, kw_only=True)
class CameraStatistics(DeliveryStatistics):
    """What a camera loader did; `amplification` is 1 where each frame is decoded once."""

    frames_missing: int
    """Pictures that a camera has no frame for: black, or another moment's."""
    frames_lost: int
    """Pictures that could not be decoded."""
    frames_surplus: int
    """Frames of a clip beyond the end of its reference, where `sync` is `index`."""
    moments_dropped: int
    """Of an epoch: those that a camera has no frame for, where these are to be dropped; also of
    clips that are left out, as none of their moments has a frame of every camera."""
    clips_skipped: int
    """Clips that cannot be read, or have no moment left."""
    moments_empty: int = 0
    """Of slots that had nothing left to read, where `tail` is `pad`."""
    moments_repeated: int = 0
    """Read again to fill batches, where `tail` is `refill`."""
    moments_cut: int = 0
    """Not read in the epochs that ended, as not all slots had as many, where `tail` is `drop`."""
    cameras_missing: int = 0
    """Cameras that a clip has no file of, or none that can be opened, and that are masked."""


_CHUNK = 16
"""Frames of a job. With 4, processor caches lose a stream between jobs, at 8 % of the speed."""


class CameraLoader(ResumableLoader[CameraStep[Any], CameraBatch]):
    """Batches of `group_num` clips, each seen by all cameras at one moment, in order.

        with CameraLoader("index_frame.json", group_num=4, size=(256, 704)) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.frames, batch.first_frame)

    A clip stays in its slot of the batch from its first frame to its last, and so with one rank and
    its open decoders: every frame is decoded once, however many ranks and workers there are. Clips
    go whole to slots, the longest first; all ranks have equally many steps.

    Batches are the same, bit for bit, with any memory budget, look-ahead and number of workers.
    Iterate it once for each epoch. One thread may use a loader at a time. A state may be loaded
    with another number of workers, another budget and look-ahead.

    With `DecoderConfig(device="cuda:0", keeps_on_device=True)` frames stay on the GPU that decodes
    them: `frames` is the very tensor that decoders write into, there. All work on it goes to
    PyTorch's default stream; it is ready for what the thread that takes it asks of its own stream
    next, for which that one waits. The memory budget is of the GPU's memory then. No GPU has run
    this yet.

    Arguments are the fields of `CameraOptions`, which stands on `LoaderOptions`; `help` tells them
    one by one.

    Raises:
        BackendError: there is no such GPU; or frames were to stay there, and those of a camera
            cannot.
        ConfigError: an argument is out of range, the budget does not hold three batches, there are
            fewer clips than the tail needs, ranks opened other clips, or sizes differ and neither
            size nor ragged is given.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _DATASETS = "a CameraStreamDataset"
    _PLACE = "step"
    _NEEDED = "clips, order, group_num and number of ranks (slots are group_num times ranks)"

    _plan: SlotPlan | EndlessPlan
    """Of the epoch that runs."""
    _epoch: int
    """The one that runs."""

    @takes(CameraOptions)
    def __init__(self, asked: CameraOptions) -> None:
        """Open the index of every camera; 1 ms for one that was seen before. Decodes nothing."""
        super().__init__(asked, prefetch_next_epoch=False)
        self._asked = asked
        self._delivered = self._missing = self._lost = 0
        self._tail = TailCounts()
        with agreement(asked.rank is None and not asked.is_strict) as opened:
            asked.check()
            self._scheduler = asked.scheduler()
            self._workers = asked.thread_count()
            self._collate = asked.collate()
            share = shard_of(asked.rank, asked.num_replicas, drop_last=False)
            self._cameras = CameraSet.open(
                layout_for(asked.layout, asked.cameras),
                asked.alignment,
                moments=asked.moments,
                skip_bad=not asked.is_strict,
                index_store=asked.index_store,
                rank=share.rank,
                ranks=share.ranks,
            )
            self._decoding = asked.decoder()
            indexes = (index for clip in self._cameras.clips for index in clip.indexes)
            check_can_decode(indexes, None, self._decoding)
            self._views = CameraViews.of(
                self._cameras,
                size=asked.size,
                fit=asked.fit,
                interpolation=asked.interpolation,
                view=asked.view,
                augment=asked.augment,
            )
            self._ragged = asked.ragged if len(self._views.sizes) > 1 else None
            self._sequences = self._cameras.sequences(asked.seq_split)
            self._schedule = self._scheduled(asked)
            self._lanes = asked.group_num * len(self._cameras.cameras)
            batch_bytes = self._lanes * math.prod(self._widest()) * 3
            self._ahead = asked.batches_ahead(batch_bytes)
            self._max_open = files_to_keep_open(self._lanes, asked.num_of_file)
            opened.checksum, opened.skipped = self._identity()["checksum"], self._cameras.num_lost

    @property
    def cameras(self) -> tuple[str, ...]:
        """Their names, in the order of a batch."""
        return self._cameras.cameras

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """Why clips that cannot be read are left out; each error names its file."""
        return self._cameras.skipped

    @property
    def lookahead(self) -> int:
        """Frames of each camera that are decoded ahead."""
        return self._ahead

    @property
    def statistics(self) -> CameraStatistics:
        """What the loader did so far."""
        spent = self._totals
        return CameraStatistics(
            frames_delivered=self._delivered,
            frames_decoded=spent.decode_counters.frames_decoded,
            seeks=spent.decode_counters.seeks,
            opens=spent.decode_counters.opens,
            bytes_read=spent.decode_counters.bytes_read,
            frames_missing=self._missing,
            frames_lost=self._lost,
            frames_surplus=sum(clip.surplus for clip in self._cameras.clips),
            moments_dropped=self._cameras.moments_dropped,
            clips_skipped=len(self._cameras.skipped),
            starved_seconds=self._starved_seconds,
            blocked_seconds=spent.blocked_seconds,
            decoded_by=None if self._scheduler is None else self._scheduler.decoded_by,
            moments_empty=self._tail.empty,
            moments_repeated=self._tail.repeated,
            moments_cut=self._tail.dropped,
            cameras_missing=sum(len(clip.lacking) for clip in self._cameras.clips),
        )

    def _scheduled(self, asked: CameraOptions) -> SlotSchedule:
        shard = shard_of(asked.rank, asked.num_replicas, drop_last=False)
        self._slots = range(shard.rank * asked.group_num, (shard.rank + 1) * asked.group_num)
        return SlotSchedule(
            lengths=self._sequences[:, 2] - self._sequences[:, 1],
            slots=shard.ranks * asked.group_num,
            group=asked.group_num,
            tail=asked.tail,
            shuffle=asked.shuffle,
            seed=asked.seed,
        )

    def _begin(self, start: Position) -> Running[CameraStep[Any]]:
        asked, self._epoch = self._asked, start.epoch
        self._plan = self._schedule.plan(start.epoch)
        lanes = CameraSchedule[Any](
            cameras=self._cameras,
            sequences=self._sequences,
            plan=self._plan,
            slots=self._slots,
            views=self._views,
            seed=self._schedule.seed,
            ragged=self._ragged,
            chunk=self._chunk(),
            memory=memory_of(self._decoding, self._ahead + 2, self._scheduler),
        )
        engine = CameraEngine(
            lanes,
            batches=self._ahead,
            max_idle=self._max_idle(),
            workers=self._workers if self._scheduler is None else self._scheduler.threads,
            is_strict=asked.is_strict,
            stall_seconds=asked.stall_seconds,
            clock=asked.clock,
        )
        return Running(engine=engine, steps=engine.run(start.place))

    def _max_idle(self) -> int:
        """Return how many files may wait open for their next job: besides those being read."""
        if self._max_open < self._lanes:
            return max(1, self._max_open - self._workers)
        return self._lanes

    def _chunk(self) -> int:
        """Return how many frames a job has: long ones, where it must seek to its first."""
        if self._max_open < self._lanes:
            return self._ahead
        return max(1, min(_CHUNK, self._ahead // 2))

    @property
    def _is_random(self) -> bool:
        return self._schedule.shuffle or self._is_endless

    @property
    def _is_endless(self) -> bool:
        return self._schedule.tail == "endless"

    def __len__(self) -> int:
        """How many batches the next epoch has; the same for every rank.

        Raises:
            NoLengthError: `tail` is `endless`.
        """
        if self._is_endless:
            raise NoLengthError(f"a CameraLoader {NO_LENGTH}")
        return super().__len__()

    def _after(self, step: CameraStep[Any]) -> Position:
        """Return the next step of the epoch that runs, or the next epoch."""
        following = step.number + 1
        if following == self._plan.num_steps:
            return Position(epoch=self._epoch + 1)
        return Position(epoch=self._epoch, place=following)

    def _batch(self, step: CameraStep[Any]) -> CameraBatch:
        pictures = self._collate.pictures(step.pixels)
        matrices, metadata = self._views.matrices(step.cells), self._asked.metadata
        batch = CameraBatch.of(
            self._cameras, step.cells, pictures, step.sizes, step.is_lost, matrices, metadata
        )
        batch = self._collate.transformed(batch, lambda: self._seeds(step, batch.clip))
        shown = int((batch.clip >= 0).sum()) * len(self._cameras.cameras)
        lost = int(step.is_lost.sum())
        self._delivered += shown
        self._lost += lost
        self._missing += shown - lost - int(batch.valid.sum())
        self._tail += self._plan.tail(self._slots, step.number, step.number + 1)
        return batch

    def _seeds(self, step: CameraStep[Any], clip: torch.Tensor) -> list[int]:
        """Return what the transform of each sample begins from."""
        seed, seeds = self._schedule.seed, []
        for cell, number in zip(step.cells, clip.tolist(), strict=True):
            draws = CounterRng(seed=seed, epoch=cell.epoch, purpose=RngStream.TRANSFORM)
            seeds.append(int(draws.words(number + 1)))
        return seeds

    def _steps_left(self, position: Position) -> int:
        return self._schedule.plan(position.epoch).num_steps - position.place

    def _widest(self) -> tuple[int, int]:
        """Return the (height, width) that a picture needs at most."""
        return self._views.common_size() if self._ragged is None else self._views.widest

    def _identity(self) -> dict[str, int]:
        schedule = self._schedule
        said = (
            repr((schedule.tail, schedule.shuffle and ORDER)).encode() + self._sequences.tobytes()
        )
        return {
            "seed": schedule.seed,
            "slots": schedule.slots,
            "group_num": schedule.group,
            "clips": len(self._cameras.clips),
            "checksum": zlib.crc32(said, self._cameras.checksum),
        }
