"""CameraLoader: batches of synchronized camera clips, each frame decoded once."""

import math
import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
import torch

from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters
from headrace.errors import MediaError
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.limits import files_to_keep_open
from headrace.runtime.memory import BatchBuffers
from headrace.sampling.slots import SlotPlan, SlotSchedule, Tail, TailCounts
from headrace.sizes import check_integers, parse_bytes
from headrace.training.cameras.batch import CameraBatch, CameraCollate, Ragged
from headrace.training.cameras.camera_set import Alignment, CameraSet
from headrace.training.cameras.engine import CameraEngine
from headrace.training.cameras.lanes import CameraStep, Lanes
from headrace.training.cameras.options import OnLost, batches_ahead, check_options, layout_for
from headrace.training.cameras.statistics import CameraStatistics
from headrace.training.collate import Transform, check_gpu
from headrace.training.iteration import still_running
from headrace.training.ranks import agreement, shard_of
from headrace.training.state import check_identity
from headrace.video.camera_layout import CameraLayout
from headrace.video.shape import FrameShape

_CHUNK = 16
"""Frames of a job. With 4, processor caches lose a stream between jobs, at 8 % of the speed."""


@dataclass(kw_only=True)
class _Tally:
    delivered: int = 0
    missing: int = 0
    lost: int = 0
    tail: TailCounts = field(default_factory=TailCounts)
    starved_ns: int = 0
    blocked_seconds: float = 0.0


class CameraLoader:
    """Batches of `group_num` clips, each seen by all cameras at one moment, in order.

        with CameraLoader("index_frame.json", group_num=4, size=(256, 704)) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.frames, batch.first_frame)

    A clip stays in its slot of the batch from its first frame to its last, and so with one rank and
    its open decoders: every frame is decoded once, however many ranks and workers there are. Clips
    go whole to slots, the longest first; all ranks have equally many steps.

    Batches are the same, bit for bit, with any memory budget, look-ahead and number of workers.
    Iterate it once for each epoch. One thread may use a loader at a time.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        group_num: Clips in a batch of this rank: its slots.
        cameras: Names of the cameras to read, in this order, of an index file; None: all, by name.
        size: (height, width) of the frames; None keeps that of the cameras, if it is one.
        ragged: Where cameras differ in size and none is given: `pad` or `list`; None: an error.
        alignment: Which frames belong together; None means those of the same index.
        tail: What happens when slots run out of clips: `pad`, `drop` or `refill`.
        seq_split: Parts that each clip is cut into; each is read by itself, from its own
            `first_frame` on.
        shuffle: Read clips in another random order in each epoch.
        seed: Another one gives other orders.
        lookahead: Frames of each camera that are decoded ahead; None takes as many as the budget
            allows, at most 32.
        memory_budget: Bytes, as a number or like "1GiB", for batches: those decoded ahead, and two
            more. What codecs need comes on top: some 17 MB for each open file at 1600x900.
        workers: Decoding threads; None means one for each core this process may use.
        num_of_file: Files that are open at a time, but at least one more than there are workers;
            None: all that are being read, as far as half the system's limit goes. With fewer than
            that, decoders start again at a keyframe, which is counted.
        gpu: Number of the NVIDIA GPU that decodes; None: the CPU does. Frames come down to the
            CPU, the same bit by bit; `device` moves batches.
        transform: Called with the frames of each batch, on their device; with ragged="list", of
            each picture.
        device: Where batches go; None leaves them on the CPU.
        pin_memory: Copy batches to page-locked memory, so that CUDA copies them in the background.
        on_error: What bad media does. With `mask`, clips that cannot be opened are left out (or a
            camera is masked, if its alignment masks what is missing), and a frame that cannot be
            decoded comes black, marked in `valid` and counted. Ranks of torch.distributed then
            compare what they opened: each must make its loader.
        rank: This process among `num_replicas`; None asks torch.distributed, if it is initialised,
            and is the only one otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.
        stall_seconds: How long a worker may be at a few frames before it is said to hang; None:
            for ever.
        store: Where indexes are kept; None means the user's cache folder.
        clock: What measures waiting.

    Raises:
        BackendError: there is no such GPU.
        ConfigError: an argument is out of range, the budget does not hold three batches, there are
            fewer clips than the tail needs, ranks opened other clips, or sizes differ and neither
            size nor ragged is given.
        OpenError, ScanError, DecodeError: a camera cannot be read or aligned.
    """

    _running: Generator[CameraStep, None, None] | None = None
    _engine: CameraEngine | None = None

    def __init__(
        self,
        layout: CameraLayout | str | os.PathLike[str],
        *,
        group_num: int = 4,
        cameras: Iterable[str] | None = None,
        size: tuple[int, int] | None = None,
        ragged: Ragged | None = None,
        alignment: Alignment | None = None,
        tail: Tail = "pad",
        seq_split: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        lookahead: int | None = None,
        memory_budget: int | str = "1GiB",
        workers: int | None = None,
        num_of_file: int | None = None,
        gpu: int | None = None,
        transform: Transform | None = None,
        device: torch.device | str | None = None,
        pin_memory: bool = False,
        on_error: OnLost = "raise",
        rank: int | None = None,
        num_replicas: int | None = None,
        stall_seconds: float | None = 120.0,
        store: IndexStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Open the index of every camera; 1 ms for one that was seen before. Decodes nothing."""
        self._is_strict = on_error == "raise"
        with agreement(rank is None and not self._is_strict) as opened:
            self._workers = len(available_cores()) if workers is None else workers
            check_options(group_num, self._workers, lookahead, num_of_file, on_error, ragged)
            check_gpu(gpu)
            layout = layout_for(layout, cameras)
            skip_bad = not self._is_strict
            self._cameras = CameraSet.open(layout, alignment, skip_bad=skip_bad, store=store)
            self._shape = FrameShape(size=size)
            self._ragged = ragged if size is None and len(self._cameras.sizes) > 1 else None
            shard = shard_of(rank, num_replicas, drop_last=False)
            self._slots = range(shard.rank * group_num, (shard.rank + 1) * group_num)
            self._sequences = self._cameras.sequences(seq_split)
            self._schedule = SlotSchedule(
                lengths=self._sequences[:, 2] - self._sequences[:, 1],
                slots=shard.ranks * group_num,
                group=group_num,
                tail=tail,
                shuffle=shuffle,
                seed=seed,
            )
            self._lanes = group_num * len(self._cameras.cameras)
            batch_bytes = self._lanes * math.prod(size or self._widest()) * 3
            self._ahead = batches_ahead(parse_bytes(memory_budget), batch_bytes, lookahead)
            self._max_open = files_to_keep_open(self._lanes, num_of_file)
            self._decoding, self._stall_seconds = Decoding.on_gpu(gpu), stall_seconds
            self._collate = CameraCollate(self._cameras, transform, device, pin_memory=pin_memory)
            self._clock, self._pid = clock, os.getpid()
            self._epoch, self._step = self._at = 0, 0
            self._tally, self._spent = _Tally(), DecodeCounters()
            opened.checksum, opened.left_out = self._identity()["checksum"], self._cameras.num_lost

    def __len__(self) -> int:
        """How many batches the next epoch has; the same for every rank."""
        return self._schedule.plan(self._epoch).num_steps

    def __iter__(self) -> Iterator[CameraBatch]:
        """Yield the batches of one epoch: of the one after that which was last iterated to its end.

        After `load_state_dict` it yields what is left of that epoch. Left early, an epoch begins
        again next time.

        Raises:
            MediaError: a frame is damaged, and that is an error. Names file and pts.
            StageError: a worker hangs; names it and its file.
            ConfigError: the loader was closed, or iterated anew, while this iteration went on.
        """
        epoch, step = self._at = self._epoch, self._step
        self._step = 0
        running, plan = self._begin(epoch, step)
        while step < plan.num_steps:
            found = self._wait_for(running)
            step += 1
            self._at = (epoch, step) if step < plan.num_steps else (epoch + 1, 0)
            self._tally.tail += plan.tail(self._slots, step - 1, step)
            batch = self._batch(found)
            if step == plan.num_steps:
                self._epoch = epoch + 1
                self.close()
            yield batch

    @property
    def cameras(self) -> tuple[str, ...]:
        """Their names, in the order of a batch."""
        return self._cameras.cameras

    @property
    def left_out(self) -> tuple[MediaError, ...]:
        """Why clips that cannot be read are left out; each error names its file."""
        return self._cameras.left_out

    @property
    def lookahead(self) -> int:
        """Frames of each camera that are decoded ahead."""
        return self._ahead

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration yields, or what is left of it."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one that is iterated next; a place in it that was loaded is kept."""
        if epoch != self._epoch:
            self._epoch, self._step = epoch, 0
            self._at = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Return where training stands after the last batch that was yielded: a few integers."""
        return {**self._identity(), "epoch": self._at[0], "step": self._at[1]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after the batch that `state` was taken at; workers and memory may differ.

        Raises:
            ConfigError: the state is of other clips, another order, or another number of slots.
        """
        needed = "clips, order, group_num and number of ranks (slots are group_num times ranks)"
        check_identity(state, self._identity(), needed)
        at = {name: state.get(name, "none") for name in ("epoch", "step")}
        check_integers(0, **at)
        self._epoch, self._step = self._at = state["epoch"], state["step"]

    @property
    def statistics(self) -> CameraStatistics:
        """What the loader did so far."""
        engine, tally = self._engine, self._tally
        spent = self._spent + engine.counters if engine else self._spent
        blocked = tally.blocked_seconds + (engine.room.blocked_seconds if engine else 0.0)
        return CameraStatistics(
            frames_delivered=tally.delivered,
            frames_decoded=spent.frames_decoded,
            seeks=spent.seeks,
            opens=spent.opens,
            bytes_read=spent.bytes_read,
            frames_missing=tally.missing,
            frames_lost=tally.lost,
            frames_surplus=sum(clip.surplus for clip in self._cameras.clips),
            moments_dropped=sum(clip.dropped for clip in self._cameras.clips),
            clips_left_out=len(self._cameras.left_out),
            starved_seconds=tally.starved_ns / 1e9,
            blocked_seconds=blocked,
            moments_empty=tally.tail.empty,
            moments_repeated=tally.tail.repeated,
            moments_cut=tally.tail.dropped,
            cameras_missing=sum(len(clip.lacking) for clip in self._cameras.clips),
        )

    def close(self) -> None:
        """End all threads and close all files. The loader may be iterated again."""
        if self._pid != os.getpid():
            # Forked: the threads are not here. Kept, as freeing them would wait for those.
            self._inherited = self._running, self._engine
            self._running = self._engine = None
            self._pid = os.getpid()
        running, engine = self._running, self._engine
        self._running = self._engine = None
        if running is not None:
            running.close()
        if engine is not None:
            self._spent += engine.counters
            self._tally.blocked_seconds += engine.room.blocked_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, epoch: int, step: int) -> tuple[Generator[CameraStep, None, None], SlotPlan]:
        self.close()
        plan = self._schedule.plan(epoch)
        lanes = Lanes(
            cameras=self._cameras,
            sequences=self._sequences,
            plan=plan,
            slots=self._slots,
            size=self._shape.size,
            ragged=self._ragged,
            chunk=self._chunk(),
            buffers=BatchBuffers(self._ahead + 2),
        )
        self._engine = CameraEngine(
            lanes,
            batches=self._ahead,
            max_idle=self._max_idle(),
            workers=self._workers,
            decoding=self._decoding,
            stall_seconds=self._stall_seconds,
            clock=self._clock,
        )
        self._running = self._engine.run(step)
        return self._running, plan

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

    def _wait_for(self, running: Generator[CameraStep, None, None]) -> CameraStep:
        started_ns = self._clock.now_ns()
        found = None
        try:
            if self._running is running:
                found = next(running, None)
            if found is not None and found.errors and self._is_strict:
                raise found.errors[0]
        except BaseException:
            self.close()
            raise
        finally:
            self._tally.starved_ns += self._clock.now_ns() - started_ns
        return still_running(found)

    def _batch(self, found: CameraStep) -> CameraBatch:
        batch = self._collate.batch(found.cells, found.pixels, found.sizes, found.is_lost)
        shown = int((batch.clip >= 0).sum()) * len(self._cameras.cameras)
        lost = int(found.is_lost.sum())
        self._tally.delivered += shown
        self._tally.lost += lost
        self._tally.missing += shown - lost - int(batch.valid.sum())
        return batch

    def _widest(self) -> tuple[int, int]:
        """Return the (height, width) that a picture needs at most."""
        if self._ragged is None:
            return self._cameras.common_size()
        height, width = np.max([*self._cameras.sizes], axis=0).tolist()
        return height, width

    def _identity(self) -> dict[str, int]:
        """What a state belongs to."""
        schedule = self._schedule
        said = repr((schedule.tail, schedule.shuffle)).encode() + self._sequences.tobytes()
        return {
            "seed": schedule.seed,
            "slots": schedule.slots,
            "group_num": schedule.group,
            "clips": len(self._cameras.clips),
            "checksum": zlib.crc32(said, self._cameras.checksum),
        }
