"""Engine of a planned loader: decodes the samples of steps, each GOP once per window."""

import math
from collections import ChainMap, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.protocol import DecodeCounters
from headrace.errors import BackendError, MediaError
from headrace.loaders.epochs import Epochs, RankBatch, StepSamples
from headrace.loaders.frame_memory import BatchRoom, Decoded, DecodeTask, PackedFrame, UnpackTask
from headrace.loaders.hold_choice import HoldChoice
from headrace.loaders.job_decoder import JobDecoder, JobWorker
from headrace.loaders.loader_options import PlannedOptions
from headrace.planning.lookahead import PlannedBatch, look_ahead
from headrace.runtime.imap import imap
from headrace.runtime.synchronization import CapacityLimiter

_ITEMS_AHEAD = 256
"""Max jobs and batches that wait for a thread or the caller; memory is bounded by the window."""
_UNPACKED_TOGETHER = 16
"""Max packed frames of a batch that one thread unpacks at a time."""


_Item = DecodeTask | UnpackTask | PlannedBatch


class Engine:
    """One run through the steps; `run` may be called once."""

    def __init__(
        self,
        epochs: Epochs,
        decoder: JobDecoder,
        choice: HoldChoice,
        options: PlannedOptions,
        *,
        num_threads: int,
    ) -> None:
        self.room = CapacityLimiter(choice.window.held_bytes, clock=options.clock)
        """Permits in bytes of frames that are decoded, or being decoded, and not yet delivered."""
        self._batches = BatchRoom(self.room)
        self._epochs = epochs
        self._decoder = decoder
        self._choice = choice
        # Not the options: their transforms may reference the loader, and threads keep the engine
        # alive.
        self._clock, self._stall_seconds = options.clock, options.stall_seconds
        self._skips_bad, self._masks_bad = options.skips_bad, options.masks_bad
        self._num_threads = num_threads
        self._frame_bytes = decoder.memory.frame_bytes
        self._steps: deque[RankBatch] = deque()
        # Of the planning thread:
        self._jobs: dict[int, DecodeTask] = {}
        """View id → the job of a waiting frame."""
        self._storing: dict[int, DecodeTask] = {}
        """GOP id → the job that stores it on the disk."""
        self._pixels: deque[Any] = deque()
        """Memory of each batch ahead; None: it is allocated when the batch is delivered."""
        # Of the iterating thread:
        self._rows: dict[int, int] = {}
        """View id → its row, for frames already written to the next batch."""
        self._decoded_again: dict[int, Any] = {}
        """View id → pixels, for frames of the next batch that were missing on the disk."""
        self._held: dict[int, Any] = {}
        """View id → pixels of a waiting frame."""
        self._packed: dict[int, DecodeTask] = {}
        """View id → the job that holds the packed frame."""
        self._failed: dict[int, MediaError] = {}
        self._concealed: set[int] = set()

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters, over all threads."""
        return self._decoder.counters

    def run(self, steps: Iterable[RankBatch]) -> Generator[StepSamples, None, None]:
        """Yield the samples of every step, in order, while threads decode ahead.

        Raises:
            MediaError: a due frame is bad, and bad frames are neither skipped nor masked.
            StageError: a thread hangs.
        """
        streams = imap(
            self._worker,
            self._work(steps),
            workers=self._num_threads,
            capacity=1,
            lookahead=_ITEMS_AHEAD,
            name="loader",
            stall_seconds=self._stall_seconds,
            clock=self._clock,
            describe=self._describe,
            on_cancel=self.room.cancel,
        )
        worker = self._decoder.worker()
        # Closed from right to left: threads are joined before files are closed.
        with closing(self._decoder), closing(streams), closing(self):
            for item, decoded in streams:
                if isinstance(item, PlannedBatch):
                    yield self._deliver(item, worker)
                else:
                    self._hold(item, decoded)

    def close(self) -> None:
        """Free the waiting frames."""
        self._held.clear()
        self._packed.clear()

    def _describe(self, item: _Item) -> str:
        if isinstance(item, PlannedBatch):
            return "a batch"
        if isinstance(item, DecodeTask):
            return self._decoder.describe(item.job)
        return f"{len(item.frames)} packed frames"

    def _worker(self) -> AbstractContextManager[Callable[[_Item], list[tuple[_Item, Decoded]]]]:
        worker = self._decoder.worker()

        def work(item: _Item) -> list[tuple[_Item, Decoded]]:
            if isinstance(item, PlannedBatch):
                return [(item, Decoded())]
            if isinstance(item, DecodeTask):
                return [(item, self._decode(item, worker))]
            return [(item, self._unpack(item, worker))]

        return nullcontext(work)

    def _work(self, steps: Iterable[RankBatch]) -> Iterator[_Item]:
        """Yield the jobs of a batch as memory allows, then the batch itself.

        The batch passes through the threads like a job, so it comes out after all earlier jobs.
        """
        plan = look_ahead(
            self._requests(steps),
            self._decoder.views,
            lookahead=self._choice.window.lookahead,
            capacity=self._choice.window.later_frames,
            first=self._choice.window.first,
            limits=self._choice.limits,
            stored=self._decoder.spill,
            unstored_batches=self._decoder.spill.unstored_batches() if self._decoder.spill else 0,
        )
        for number, batch in enumerate(plan):
            # Sizes of packed frames are estimates, so a batch that is due may exceed the capacity.
            is_due = partial(self._batches.is_next, number)
            for job in batch.jobs:
                packing = self._choice.packing
                later = (len(job.frames) - len(job.due)) * self._choice.bytes_per_frame
                permits = min(len(job.due) * self._frame_bytes + later, self.room.capacity)
                item = DecodeTask(job=job, packing=packing, permits=permits)
                self.room.acquire(item.permits, is_due)
                self._jobs.update(dict.fromkeys(job.frames, item))
                if job.is_whole:
                    self._storing[job.gop] = item
                yield item
            yield from self._unpackings(batch, number)
            for frame in batch.released:
                self._jobs.pop(frame, None)
            yield batch

    def _unpackings(self, batch: PlannedBatch, number: int) -> Iterator[UnpackTask]:
        """Yield tasks for the frames of a batch that are packed, in memory or on the disk."""
        self._storing = {gop: job for gop, job in self._storing.items() if not job.is_done}
        packed = [
            PackedFrame(frame=frame, source=job, after=job or self._storing.get(gop))
            for frame, gop in zip(
                batch.waiting,
                self._decoder.views.gop_of(np.array(batch.waiting, np.int64)).tolist(),
                strict=True,
            )
            if (job := self._jobs.get(frame)) is None or job.packing is not None
        ]
        if not packed:
            self._pixels.append(None)
            return
        shape = self._shape(batch.requests)
        self._batches.acquire(number, math.prod(shape) * self._decoder.memory.shape.item_bytes)
        self._pixels.append(pixels := self._decoder.memory.rows(shape))
        rows = {frame: row for row, frame in enumerate(batch.requests.ravel().tolist())}
        for begin in range(0, len(packed), _UNPACKED_TOGETHER):
            frames = packed[begin : begin + _UNPACKED_TOGETHER]
            yield UnpackTask(
                frames=frames,
                rows={item.frame: rows[item.frame] for item in frames},
                pixels=pixels.reshape(-1, *pixels.shape[-3:]),
            )

    def _requests(self, steps: Iterable[RankBatch]) -> Iterator[NDArray[np.int64]]:
        for step in steps:
            self._steps.append(step)
            yield self._decoder.views.ids(step, step.frames)

    def _decode(self, item: DecodeTask, worker: JobWorker) -> Decoded:
        started_ns = self._clock.now_ns()
        try:
            sample = self._clock if self._choice.is_open else None
            decoded = worker.decode(item.job, item.packing, sample)
            item.packed = decoded.packed
        finally:
            waiting = item.finish()
        if self._choice.is_open and decoded.frames:
            seconds = (self._clock.now_ns() - started_ns) / 1e9
            num_decoded = self._decoder.num_to_decode(item.job)
            if self._choice.observe(
                num_decoded, seconds, [*decoded.frames.values()], decoded.sample
            ):
                self._decoder.memory.trim()  # from now on, fewer frames wait as pixels
        sizes = [*map(len, decoded.packed.values())]
        if sizes:
            self._choice.count_packed(sizes)
        self.room.release(item.permits - len(decoded.frames) * self._frame_bytes - sum(sizes))
        for task, frames in waiting.items():  # tasks of batches after this job
            self._write_rows(task, frames, worker)
        return decoded

    def _unpack(self, item: UnpackTask, worker: JobWorker) -> Decoded:
        """Unpack frames into their rows; return frames missing on the disk, decoded again.

        If the job of a frame is still running, its thread unpacks the frame afterwards: this thread
        does not wait.
        """
        ready = [
            frame for frame in item.frames if not (frame.after and frame.after.defer(item, frame))
        ]
        self._write_rows(item, ready, worker)
        return item.decoded

    def _write_rows(
        self, item: UnpackTask, frames: Sequence[PackedFrame], worker: JobWorker
    ) -> None:
        """Unpack frames into their rows; decode frames again that are missing on the disk."""
        missing = list[int]()
        for packed in frames:
            row = item.pixels[item.rows[packed.frame]]
            if packed.source is None:
                if not self._read(packed.frame, row, worker):
                    missing.append(packed.frame)
                continue
            content = packed.source.packed.get(packed.frame)
            if content is None:  # the frame waits as pixels, or has failed
                del item.rows[packed.frame]
            else:
                assert packed.source.packing is not None
                worker.unpack(packed.source.packing, content, row)
        for again in self._decode_now(missing, worker):
            self.room.release(-len(again.frames) * self._frame_bytes)
            item.decoded.frames.update(again.frames)
            item.decoded.failures.update(again.failures)
            item.decoded.concealed.update(again.concealed)
        for frame in missing:
            del item.rows[frame]

    def _read(self, frame: int, row: Any, worker: JobWorker) -> bool:
        """Read a frame from the disk into its row; return whether it is there, and valid."""
        spill = self._decoder.spill
        assert spill is not None
        packed = spill.read(frame)
        if packed is None:
            return False
        try:
            worker.unpack(spill.packing, packed, row)
        except BackendError:
            spill.forget(frame)
            return False
        self._choice.count_packed([len(packed)])
        return True

    def _hold(self, item: DecodeTask | UnpackTask, decoded: Decoded) -> None:
        if isinstance(item, UnpackTask):
            self._rows |= item.rows
            self._decoded_again |= decoded.frames
        else:
            self._held.update(decoded.frames)
            self._packed.update(dict.fromkeys(decoded.packed, item))
        self._failed.update(decoded.failures)
        self._concealed |= decoded.concealed
        if self._skips_bad:
            self._quarantine(decoded)

    def _quarantine(self, decoded: Decoded) -> None:
        """Quarantine the frames that could not be decoded."""
        ids = np.array([*decoded.failures], np.int64)
        frames = self._decoder.views.frames(ids).tolist()
        for frame, error in zip(frames, decoded.failures.values(), strict=True):
            self._epochs.quarantine.add(frame, error)

    def _release(self, frames: tuple[int, ...]) -> None:
        """Release the memory of `frames`, and of frames decoded again for this batch."""
        self._concealed.difference_update(frames)
        self._rows.clear()
        buffers = [*self._decoded_again.values()]
        num_bytes = 0
        for frame in frames:
            self._failed.pop(frame, None)
            if frame in self._held:
                buffers.append(self._held.pop(frame))
            if frame in self._packed:
                num_bytes += len(self._packed.pop(frame).packed.pop(frame))
        self._decoded_again.clear()
        for buffer in buffers:
            self._decoder.memory.give(buffer)
        self._batches.deliver()
        self.room.release(num_bytes + len(buffers) * self._frame_bytes)

    def _deliver(self, batch: PlannedBatch, worker: JobWorker) -> StepSamples:
        """Return the samples of the next step, whose frames are all decoded."""
        step, pixels = self._steps.popleft(), self._pixels.popleft()
        ids = self._decoder.views.ids(step, step.frames)
        failed = (view_id for view_id in ids.ravel().tolist() if view_id in self._failed)
        error = None if self._masks_bad else self._failed.get(next(failed, -1))
        if error is not None and not self._skips_bad:
            raise error
        memory: AbstractContextManager[Any] = nullcontext(pixels)
        if pixels is None:
            memory = self._decoder.memory.batch(self._shape(ids))
        with memory as pixels:
            samples = self._fill(step, pixels, worker, has_bad=error is not None)
        self._release(batch.released)
        return samples

    def _shape(self, ids: NDArray[np.int64]) -> tuple[int, ...]:
        return (*ids.shape, *self._decoder.size, 3)

    def _fill(
        self, step: RankBatch, pixels: Any, worker: JobWorker, *, has_bad: bool
    ) -> StepSamples:
        """Write the frames of a step to `pixels`; `worker` decodes substitutes of bad samples."""
        frames, drawn = step.frames, step.drawn
        rows = pixels.reshape(-1, *pixels.shape[-3:])
        written = {view_id: rows[row] for view_id, row in self._rows.items()}
        substitutes = dict[int, Any]()
        if has_bad:
            frames, drawn, substitutes = self._substitute(step, worker)
            written = {view_id: row.copy() for view_id, row in written.items()}
        ids = self._decoder.views.ids(step, frames)
        pixels_of = ChainMap(self._decoded_again, self._held, substitutes)
        for row, view_id in enumerate(ids.ravel().tolist()):
            if view_id in self._failed:
                rows[row] = 0
            elif view_id not in written:
                worker.write(pixels_of[view_id], rows[row])
            elif has_bad or self._rows[view_id] != row:
                rows[row] = written[view_id]
        for buffer in substitutes.values():
            self._decoder.memory.give(buffer)
        return StepSamples(
            requests=step,
            frames=frames,
            drawn=drawn,
            pixels=pixels,
            is_concealed=np.isin(ids, list(self._concealed)),
            is_lost=np.isin(ids, list(self._failed)),
        )

    def _substitute(
        self, step: RankBatch, worker: JobWorker
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, Any]]:
        """Return the frames of a step without bad samples, their slots, and decoded substitutes.

        Substitutes are not planned, so this thread decodes them immediately.
        """
        substitutes: dict[int, Any] = {}
        while True:
            frames, drawn = self._epochs.samples(step.epoch, step.slots)
            ids = self._decoder.views.ids(step, frames)
            missing = set(ids.ravel().tolist()).difference(
                self._rows, self._decoded_again, self._held, substitutes
            )
            if not missing:
                return frames, drawn, substitutes
            for decoded in self._decode_now(missing, worker):
                substitutes.update(decoded.frames)
                self._quarantine(decoded)

    def _decode_now(self, frames: Collection[int], worker: JobWorker) -> Iterator[Decoded]:
        """Decode frames that are not planned, in this thread."""
        requests = [np.array(sorted(frames), np.int64)] if frames else []
        plan = look_ahead(requests, self._decoder.views, lookahead=max(1, len(frames)), capacity=0)
        return (worker.decode(job) for batch in plan for job in batch.jobs)
