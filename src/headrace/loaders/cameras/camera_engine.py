"""The engine of a camera loader: lanes in, batches out, each frame decoded once."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Generic, TypeAlias

from headrace.decode.frame_outputs import Pixels
from headrace.decode.job_result import JobResult, read
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.loaders.cameras.camera_schedule import (
    CameraSchedule,
    CameraStep,
    LaneJob,
    stream_jobs,
)
from headrace.runtime.clock import Clock
from headrace.runtime.imap import imap
from headrace.runtime.synchronization import CapacityLimiter, ResourcePool, Sequencer

_Item: TypeAlias = LaneJob[Pixels] | CameraStep[Pixels]

_ITEMS_AHEAD = 1024
"""Jobs and batches on their way; memory is bounded by the room, not by this."""


class CameraEngine(Generic[Pixels]):
    """One run through the steps of an epoch; it can be run once."""

    def __init__(
        self,
        lanes: CameraSchedule[Pixels],
        *,
        batches: int,
        max_idle: int,
        workers: int,
        is_strict: bool,
        stall_seconds: float | None,
        clock: Clock,
    ) -> None:
        """Open nothing yet.

        Args:
            lanes: What is read, into which memory.
            batches: That may be on their way, besides those the caller has.
            max_idle: Files that may wait open for their next job.
            workers: Decoding threads.
            is_strict: Whether a frame that is lost is an error; else it is marked.
            stall_seconds: How long a worker may be at one job before it is said to hang.
            clock: What measures waiting.
        """
        self._clock = clock
        self.room = CapacityLimiter(batches, clock=clock)
        """Batches that are being made, or wait for the caller."""
        self._lanes: CameraSchedule[Pixels] = lanes
        self._workers = workers
        self._is_strict = is_strict
        self._stall_seconds = stall_seconds
        self._turns = Sequencer()
        self._idle: ResourcePool[tuple[int, int], Decoder[Pixels]] = ResourcePool(max_idle)
        self._kept: dict[tuple[int, int], tuple[int, Pixels]] = {}
        self._spent: list[DecodeCounters] = []

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return sum(tuple(self._spent), DecodeCounters())

    def run(self, first_step: int) -> Generator[CameraStep[Pixels], None, None]:
        """Yield every batch from `first_step` on, in order; what is lost in it is marked.

        Raises:
            MediaError: a frame is lost, and that is an error.
            StageError: a worker hangs.
        """
        streams = imap(
            self._worker,
            self._lanes.work(first_step, self.room),
            workers=self._workers,
            capacity=1,
            lookahead=_ITEMS_AHEAD,
            name="cameras",
            stall_seconds=self._stall_seconds,
            clock=self._clock,
            describe=self._describe,
            on_cancel=self._cancel,
        )
        # Left from the right: threads are joined, files closed.
        with closing(self._lanes.memory), closing(self._idle), closing(streams):
            for step in streams:
                if self._is_strict and step.errors:
                    raise step.errors[0]
                self._lanes.memory.hand_over(step.pixels)
                yield step
                self.room.release(1)

    def _cancel(self) -> None:
        self.room.cancel()
        self._turns.cancel()

    def _worker(
        self,
    ) -> AbstractContextManager[Callable[[_Item[Pixels]], list[CameraStep[Pixels]]]]:
        spent = DecodeCounters()
        self._spent.append(spent)

        def work(item: _Item[Pixels]) -> list[CameraStep[Pixels]]:
            if isinstance(item, CameraStep):
                return [item]
            with self._turns.turn(item.lane, item.turn):
                spent.count(self._decode(item))
            return []

        return nullcontext(work)

    def _decode(self, job: LaneJob[Pixels]) -> DecodeCounters:
        """Write the frames of a job where they belong; what cannot be decoded is marked there."""
        (place, camera), memory = job.lane, self._lanes.memory
        left: dict[int, list[CameraStep[Pixels]]] = dict(job.wanted)
        last = self._kept.pop(job.lane, None)
        if last is not None:
            for step in left.pop(last[0], []):
                step.picture(place, camera)[...] = last[1]
        index = self._lanes.cameras.clips[job.clip].indexes[camera]
        idle = self._idle.acquire(job.lane)
        decoder = idle or memory.decoder(index, job.framing.shape)
        before, stays_open = replace(decoder.counters), False
        try:
            is_whole = True
            for wanted in stream_jobs(index, [*left], job.next_frame):
                out = [left[frame][0].picture(place, camera) for frame in wanted.wanted]
                reading = read(decoder, wanted, out)
                for frame, picture in zip(wanted.wanted, out, strict=True):
                    if frame in reading.came:
                        job.framing.finish(picture)
                is_whole &= reading.error is None
                last = wanted.wanted[-1], out[-1]
                _show(reading, job.lane, left, out)
            if is_whole and job.keeps_last and last is not None:
                self._kept[job.lane] = last[0], memory.copy(last[1])
            stays_open = is_whole and job.goes_on
        finally:
            if stays_open:
                self._idle.release(job.lane, decoder)
            else:
                decoder.close()
        return decoder.counters - before

    def _describe(self, item: _Item[Pixels]) -> str:
        if isinstance(item, CameraStep):
            return "a batch"
        clip = self._lanes.cameras.clips[item.clip]
        first = next(iter(item.wanted), 0)
        source = clip.indexes[item.lane[1]].source
        return f"{len(item.wanted)} frames of {source} (from frame {first})"


def _show(
    reading: JobResult,
    lane: tuple[int, int],
    shown: dict[int, list[CameraStep[Pixels]]],
    pictures: Sequence[Pixels],
) -> None:
    """Copy frames to all batches that show them; mark those that did not come, and leave black."""
    for frame, pixels in zip(reading.wanted, pictures, strict=True):
        steps = shown[frame]
        if frame in reading.came:
            for step in steps[1:]:
                step.picture(*lane)[...] = pixels
        elif reading.error is not None:
            for step in steps:
                step.is_lost[lane] = True
                step.picture(*lane)[...] = 0
                step.errors.append(reading.error)
