"""CameraLoader: batches of synchronized camera clips; each frame is decoded once."""

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
from headrace.sampling.sampler import Shard
from headrace.sampling.slots import (
    NO_LENGTH,
    ORDER,
    SlotPlan,
    SlotSchedule,
    TailCounts,
)


@dataclass(frozen=True, kw_only=True)
class CameraStatistics(DeliveryStatistics):
    """Counts of a camera loader; `amplification` is 1 if each frame is decoded once."""

    frames_missing: int
    """Delivered frames that a camera does not have: black, or another moment's."""
    frames_lost: int
    """Delivered frames that could not be decoded; they are black."""
    frames_surplus: int
    """Frames of clips after the end of their reference, with `sync="index"`."""
    moments_dropped: int
    """Moments per epoch that `on_missing="drop"` drops, including those of clips without any moment
    left."""
    clips_skipped: int
    """Clips that cannot be read, or have no moment left."""
    moments_empty: int = 0
    """Moments of empty slots, with `tail="pad"`."""
    moments_repeated: int = 0
    """Moments read again to fill batches, with `tail="refill"`."""
    moments_cut: int = 0
    """Moments of finished epochs that were not read, with `tail="drop"`."""
    cameras_missing: int = 0
    """Masked cameras, over all clips: the file is missing, or cannot be opened."""


_JOB_FRAMES = 16
"""Max frames of a job. With 4, processor caches lose a stream between jobs: 8 % slower."""


class CameraLoader(ResumableLoader[CameraStep, CameraBatch]):
    """Batches of consecutive moments of `group_num` clips, each seen by all cameras.

        with CameraLoader("index_frame.json", group_num=4, size=(256, 704)) as loader:
            while loader.epoch < 10:
                for batch in loader:
                    train(batch.frames, batch.first_frame)

    A clip stays in one slot of the batch from its first frame to its last. So one rank keeps its
    decoders open, and every frame is decoded once, for any number of ranks and threads. Whole clips
    are assigned to slots, the longest first; all ranks have the same number of steps.

    Batches are the same, bit for bit, with any memory budget, lookahead and number of threads.
    Each iteration is one epoch. Only one thread may use a loader at a time. A state may be loaded
    with another number of threads, budget and lookahead.

    With `DecoderConfig(device="cuda:0", keeps_on_device=True)` frames stay on the GPU that decodes
    them: decoders write into `frames`, on PyTorch's default stream, and the current stream of the
    iterating thread waits for them. The memory budget then counts GPU memory. Not yet run on a GPU.

    Arguments are the fields of `CameraOptions` and `LoaderOptions`; `help` lists them.

    Raises:
        BackendError: the GPU is missing, or frames of a camera cannot stay on it.
        ConfigError: an argument is out of range, the budget does not hold three batches, the tail
            needs more clips, ranks opened different clips, or sizes differ and neither `size` nor
            `ragged` is given.
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
    def __init__(self, options: CameraOptions) -> None:
        """Open the index of every camera, in 1 ms if it was scanned before. Decodes nothing."""
        self._delivered = self._missing = self._lost = 0
        self._tail = TailCounts()
        super().__init__(options)

    def _open(self, shard: Shard) -> int:
        options = self._options
        self._cameras = open_cameras(options, shard)
        self._decoding = options.decoder()
        indexes = (index for clip in self._cameras.clips for index in clip.indexes)
        check_can_decode(indexes, None, self._decoding)
        self._views = CameraViews.of(
            self._cameras,
            size=options.size,
            fit=options.fit,
            interpolation=options.interpolation,
            view=options.view,
            augment=options.augment,
        )
        self._spill = options.open_spill(is_augmented=options.augment is not None)
        self._ragged = options.ragged if len(self._views.sizes) > 1 else None
        self._sequences = self._cameras.sequences(options.seq_split)
        self._slots = range(shard.rank * options.group_num, (shard.rank + 1) * options.group_num)
        self._schedule = SlotSchedule(
            lengths=self._sequences[:, 2] - self._sequences[:, 1],
            slots=shard.ranks * options.group_num,
            group=options.group_num,
            tail=options.tail,
            shuffle=options.shuffle,
            seed=options.seed,
        )
        self._num_streams = options.group_num * len(self._cameras.cameras)
        size = self._views.common_size() if self._ragged is None else self._views.max_size
        self._ahead = options.batches_ahead(self._num_streams * math.prod(size) * 3)
        self._max_open = files_to_keep_open(self._num_streams, options.num_of_file)
        return self._cameras.num_lost

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras, in the order of a batch."""
        return self._cameras.cameras

    @property
    def skipped_videos(self) -> tuple[MediaError, ...]:
        """One error per skipped clip; it names the file."""
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
            # Each job seeks to its first frame, so longer jobs cost less.
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
            self._collate.to_frames(step.pixels),
            step.sizes,
            step.is_lost,
            self._views.matrices(step.cells),
            self._options.metadata,
        )
        batch = self._collate.apply_transforms(batch, self._seeds(step, batch.clip))
        delivered = int((batch.clip >= 0).sum()) * len(self._cameras.cameras)
        lost = int(step.is_lost.sum())
        self._delivered += delivered
        self._lost += lost
        self._missing += delivered - lost - int(batch.valid.sum())
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
