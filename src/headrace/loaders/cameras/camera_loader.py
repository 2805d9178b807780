"""CameraLoader: batches of synchronized camera clips, each frame decoded once."""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from headrace.decode.open_decoder import check_can_decode
from headrace.errors import MediaError, NoLengthError
from headrace.loaders.cameras.camera_batch import CameraBatch
from headrace.loaders.cameras.camera_engine import CameraEngine, CameraSchedule, CameraStep
from headrace.loaders.cameras.camera_options import CameraOptions, open_cameras
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.loaders.epochs import Position
from headrace.loaders.frame_memory import BatchMemory
from headrace.loaders.loader_options import takes
from headrace.loaders.resumable import DeliveryStatistics, ResumableLoader, Running
from headrace.runtime.posix import files_to_keep_open
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.sampling.epoch_order import Shard
from headrace.sampling.slots import (
    NO_LENGTH,
    ORDER,
    SlotPlan,
    SlotSchedule,
    TailCounts,
)


@dataclass(frozen=True, kw_only=True)
class CameraStatistics(DeliveryStatistics):
    """Counts of a camera loader; `amplification` is 1 where each frame is decoded once."""

    frames_missing: int
    """Delivered frames that a camera does not have: black, or another moment's."""
    frames_lost: int
    """Delivered frames that could not be decoded: black."""
    frames_surplus: int
    """Frames of clips after the end of their reference, with `sync="index"`."""
    moments_dropped: int
    """Moments of an epoch left out by `on_missing="drop"`, also those of clips that have no moment
    left."""
    clips_skipped: int
    """Clips that cannot be read, or have no moment left."""
    moments_empty: int = 0
    """Moments of slots with nothing left to read, with `tail="pad"`."""
    moments_repeated: int = 0
    """Moments read again to fill batches, with `tail="refill"`."""
    moments_cut: int = 0
    """Moments of finished epochs that were not read, with `tail="drop"`."""
    cameras_missing: int = 0
    """Cameras of clips that are masked: their file is absent, or cannot be opened."""


_JOB_FRAMES = 16
"""Frames of a job. With 4, processor caches lose a stream between jobs, at 8 % of the speed."""


class CameraLoader(ResumableLoader[CameraStep, CameraBatch]):
    """Batches of `group_num` clips, each seen by all cameras at one moment, in order.

        with CameraLoader("index_frame.json", group_num=4, size=(256, 704)) as loader:
            while loader.epoch < 10:
                for batch in loader:
                    train(batch.frames, batch.first_frame)

    A clip stays in one slot of the batch from its first frame to its last, so one rank keeps its
    decoders open and every frame is decoded once, for any number of ranks and threads. Clips are
    assigned to slots as a whole, the longest first; all ranks have the same number of steps.

    Batches are the same, bit for bit, with any memory budget, lookahead and number of threads.
    Each iteration is one epoch. One thread may use a loader at a time. A state may be loaded with
    another number of threads, another budget and lookahead.

    With `DecoderConfig(device="cuda:0", keeps_on_device=True)` frames stay on the GPU that decodes
    them: decoders write into `frames`, on PyTorch's default stream. The current stream of the
    iterating thread waits for this work. The memory budget then counts GPU memory. This has not
    run on a GPU yet.

    Arguments are the fields of `CameraOptions` and `LoaderOptions`; `help` lists them.

    Raises:
        BackendError: the GPU is missing, or frames of a camera cannot stay on it.
        ConfigError: an argument is out of range, the budget does not hold three batches, the tail
            needs more clips, ranks opened different clips, or sizes differ without `size` or
            `ragged`.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _DATASETS = "a CameraStreamDataset"
    _OFFSET_KEY = "step"
    _NEEDED = "clips, order, group_num and number of ranks (slots are group_num times ranks)"

    _options: CameraOptions
    _plan: SlotPlan
    """Plan of the current epoch."""
    _epoch: int
    """Current epoch."""

    @takes(CameraOptions)
    def __init__(self, asked: CameraOptions) -> None:
        """Open the index of every camera; 1 ms for one scanned before. Decodes nothing."""
        self._delivered = self._missing = self._lost = 0
        self._tail = TailCounts()
        super().__init__(asked)

    def _open(self, shard: Shard) -> int:
        asked = self._options
        self._cameras = open_cameras(asked, shard)
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
        self._spill = asked.open_spill(is_augmented=asked.augment is not None)
        self._ragged = asked.ragged if len(self._views.sizes) > 1 else None
        self._sequences = self._cameras.sequences(asked.seq_split)
        self._slots = range(shard.rank * asked.group_num, (shard.rank + 1) * asked.group_num)
        self._schedule = SlotSchedule(
            lengths=self._sequences[:, 2] - self._sequences[:, 1],
            slots=shard.ranks * asked.group_num,
            group=asked.group_num,
            tail=asked.tail,
            shuffle=asked.shuffle,
            seed=asked.seed,
        )
        self._num_streams = asked.group_num * len(self._cameras.cameras)
        size = self._views.common_size() if self._ragged is None else self._views.max_size
        self._ahead = asked.batches_ahead(self._num_streams * math.prod(size) * 3)
        self._max_open = files_to_keep_open(self._num_streams, asked.num_of_file)
        return self._cameras.num_lost

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras, in the order of a batch."""
        return self._cameras.cameras

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """One error for each clip that is left out; names its file."""
        return self._cameras.skipped

    @property
    def lookahead(self) -> int:
        """Frames of each camera that are decoded ahead."""
        return self._ahead

    @property
    def statistics(self) -> CameraStatistics:
        """Counts so far."""
        return CameraStatistics(
            **self._decode_statistics(),
            frames_delivered=self._delivered,
            frames_missing=self._missing,
            frames_lost=self._lost,
            frames_surplus=sum(clip.surplus for clip in self._cameras.clips),
            moments_dropped=self._cameras.moments_dropped,
            clips_skipped=len(self._cameras.skipped),
            moments_empty=self._tail.empty,
            moments_repeated=self._tail.repeated,
            moments_cut=self._tail.dropped,
            cameras_missing=len(self._cameras.lacking),
        )

    def _begin(self, start: Position) -> Running[CameraStep]:
        self._epoch = start.epoch
        self._plan = self._schedule.plan(start.epoch)
        max_idle, job_frames = self._num_streams, max(1, min(_JOB_FRAMES, self._ahead // 2))
        if self._max_open < self._num_streams:
            # Each job seeks to its first frame, so jobs are long.
            max_idle, job_frames = (
                max(1, self._max_open - self._options.thread_count()),
                self._ahead,
            )
        engine = CameraEngine(
            schedule=CameraSchedule(
                cameras=self._cameras,
                sequences=self._sequences,
                plan=self._plan,
                slots=self._slots,
                views=self._views,
                seed=self._schedule.seed,
                ragged=self._ragged,
                job_frames=job_frames,
                memory=BatchMemory(self._decoding, max_reused=self._ahead + 2),
            ),
            decoding=self._decoding,
            scheduler=self._scheduler,
            options=self._options,
            max_batches=self._ahead,
            max_idle=max_idle,
            num_threads=self._num_threads,
            spill=self._spill,
        )
        return Running(engine=engine, steps=engine.run(start.offset))

    @property
    def _is_random(self) -> bool:
        return self._schedule.shuffle or self._is_endless

    @property
    def _is_endless(self) -> bool:
        return self._schedule.tail == "endless"

    def __len__(self) -> int:
        """Number of batches of the next epoch; the same for every rank.

        Raises:
            NoLengthError: `tail` is `endless`.
        """
        if self._is_endless:
            raise NoLengthError(f"a CameraLoader {NO_LENGTH}")
        return super().__len__()

    def _after(self, step: CameraStep) -> Position:
        """Return the next step of this epoch, or the next epoch."""
        if step.number + 1 == self._plan.num_steps:
            return Position(epoch=self._epoch + 1)
        return Position(epoch=self._epoch, offset=step.number + 1)

    def _batch(self, step: CameraStep) -> CameraBatch:
        batch = CameraBatch.of(
            self._cameras,
            step.cells,
            self._collate.pictures(step.pixels),
            step.sizes,
            step.is_lost,
            self._views.matrices(step.cells),
            self._options.metadata,
        )
        batch = self._collate.transformed(batch, self._seeds(step, batch.clip))
        shown = int((batch.clip >= 0).sum()) * len(self._cameras.cameras)
        lost = int(step.is_lost.sum())
        self._delivered += shown
        self._lost += lost
        self._missing += shown - lost - int(batch.valid.sum())
        self._tail += self._plan.tail(self._slots, step.number, step.number + 1)
        return batch

    def _seeds(self, step: CameraStep, clips: torch.Tensor) -> Iterator[int]:
        """Yield the seed of each sample's transform."""
        for cell, clip in zip(step.cells, clips.tolist(), strict=True):
            draws = CounterRng(
                seed=self._schedule.seed, epoch=cell.epoch, purpose=RngStream.TRANSFORM
            )
            yield int(draws.words(clip + 1))

    def _steps_left(self, position: Position) -> int:
        return self._schedule.plan(position.epoch).num_steps - position.offset

    def _identity(self) -> dict[str, int]:
        schedule = self._schedule
        order = repr((schedule.tail, schedule.shuffle and ORDER)).encode()
        return {
            "seed": schedule.seed,
            "slots": schedule.slots,
            "group_num": schedule.group,
            "clips": len(self._cameras.clips),
            "checksum": zlib.crc32(order + self._sequences.tobytes(), self._cameras.checksum),
        }
