"""The engine of a camera loader: lanes in, batches out, each frame decoded once."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import MediaError
from headrace.runtime.clock import Clock
from headrace.runtime.ordered import ordered_streams
from headrace.runtime.room import Room
from headrace.runtime.shelf import Shelf
from headrace.runtime.turns import Turns
from headrace.training.cameras.lanes import CameraStep, LaneJob, Lanes
from headrace.video.shape import FrameShape

_Item = LaneJob | CameraStep

_ITEMS_AHEAD = 1024
"""Jobs and batches on their way; memory is bounded by the room, not by this."""


class CameraEngine:
    """One run through the steps of an epoch; it can be run once."""

    def __init__(
        self,
        lanes: Lanes,
        *,
        batches: int,
        max_idle: int,
        workers: int,
        gpu: int | None,
        is_strict: bool,
        stall_seconds: float | None,
        clock: Clock,
    ) -> None:
        """Open nothing yet.

        Args:
            lanes: What is read.
            batches: That may be on their way, besides those the caller has.
            max_idle: Files that may wait open for their next job.
            workers: Decoding threads.
            gpu: Number of the NVIDIA GPU that decodes; None: the CPU does.
            is_strict: Whether a frame that is lost is an error; else it is marked.
            stall_seconds: How long a worker may be at one job before it is said to hang.
            clock: What measures waiting.
        """
        self.room = Room(batches, clock=clock)
        """Batches that are being made, or wait for the caller."""
        self._lanes = lanes
        self._shape = FrameShape(size=lanes.size)
        self._workers = workers
        self._gpu = gpu
        self._is_strict = is_strict
        self._stall_seconds = stall_seconds
        self._turns = Turns()
        self._idle: Shelf[tuple[int, int], Decoder] = Shelf(max_idle)
        self._kept: dict[tuple[int, int], tuple[int, NDArray[np.uint8]]] = {}
        self._spent: list[DecodeCounters] = []

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return sum(tuple(self._spent), DecodeCounters())

    def run(self, first_step: int) -> Generator[CameraStep, None, None]:
        """Yield every batch from `first_step` on, in order; what is lost in it is marked.

        Raises:
            MediaError: a frame is lost, and that is an error.
            StageError: a worker hangs.
        """
        streams = ordered_streams(
            self._worker,
            self._lanes.work(first_step, self.room),
            workers=self._workers,
            capacity=1,
            lookahead=_ITEMS_AHEAD,
            name="cameras",
            stall_seconds=self._stall_seconds,
            describe=self._describe,
            on_cancel=self._cancel,
        )
        # Left from the right: threads are joined, files closed.
        with closing(self._lanes.buffers), closing(self._idle), closing(streams):
            for step in streams:
                if self._is_strict and step.errors:
                    raise step.errors[0]
                yield step
                self.room.give(1)

    def _cancel(self) -> None:
        self.room.cancel()
        self._turns.cancel()

    def _worker(self) -> AbstractContextManager[Callable[[_Item], list[CameraStep]]]:
        spent = DecodeCounters()
        self._spent.append(spent)

        def work(item: _Item) -> list[CameraStep]:
            if isinstance(item, CameraStep):
                return [item]
            with self._turns.turn(item.lane, item.turn):
                spent.count(self._decode(item))
            return []

        return nullcontext(work)

    def _decode(self, job: LaneJob) -> DecodeCounters:
        """Write the frames of a job where they belong; what cannot be decoded is marked there."""
        place, camera = job.lane
        left = dict(job.wanted)
        kept = self._kept.pop(job.lane, None)
        if kept is not None:
            for step in left.pop(kept[0], []):
                step.picture(place, camera)[...] = kept[1]
        index = self._lanes.cameras.clips[job.clip].indexes[camera]
        idle = self._idle.take(job.lane)
        decoder = idle or open_decoder(index, self._shape, gpu=self._gpu)
        before = replace(decoder.counters)
        stays_open = False
        try:
            if left:
                out = [steps[0].picture(place, camera) for steps in left.values()]
                wanted = DecodeJob(tuple(left), goes_on=job.goes_on)
                for frame, pixels in decoder.run(wanted, out):
                    for step in left.pop(frame)[1:]:
                        step.picture(place, camera)[...] = pixels
                    if job.keeps_last:
                        kept = frame, pixels
            if job.keeps_last and kept is not None:
                self._kept[job.lane] = kept[0], kept[1].copy()
            stays_open = job.goes_on
        except MediaError as error:
            for step in (step for steps in left.values() for step in steps):
                step.is_lost[place, camera] = True
                step.picture(place, camera)[...] = 0
                step.errors.append(error)
        finally:
            if stays_open:
                self._idle.put(job.lane, decoder)
            else:
                decoder.close()
        return decoder.counters - before

    def _describe(self, item: _Item) -> str:
        if isinstance(item, CameraStep):
            return "a batch"
        clip = self._lanes.cameras.clips[item.clip]
        first = next(iter(item.wanted), 0)
        source = clip.indexes[item.lane[1]].source
        return f"{len(item.wanted)} frames of {source} (from frame {first})"
