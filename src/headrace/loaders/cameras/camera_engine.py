"""CameraEngine: decodes the streams of a camera loader on threads, each frame once."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import Any

import torch

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.device_scheduler import DeviceScheduler
from headrace.decode.job_result import JobResult, run_job
from headrace.decode.open_decoder import open_any_decoder
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.loaders.cameras.camera_options import CameraOptions
from headrace.loaders.cameras.camera_schedule import (
    CameraSchedule,
    CameraStep,
    StreamJob,
    stream_jobs,
)
from headrace.runtime.imap import imap
from headrace.runtime.synchronization import CapacityLimiter, ResourcePool, Sequencer

_MAX_ITEMS = 1024
"""Jobs and batches in flight; memory is bounded by the batches, not by this."""


class CameraEngine:
    """One run through the steps of an epoch; runs once."""

    def __init__(
        self,
        schedule: CameraSchedule,
        decoding: DecoderConfig,
        scheduler: DeviceScheduler | None,
        options: CameraOptions,
        *,
        max_batches: int,
        max_idle: int,
        num_threads: int,
    ) -> None:
        """Open nothing yet.

        Args:
            schedule: The jobs and batches.
            decoding: Backend and device.
            scheduler: Device of each job, with `DecoderConfig(device="auto")`.
            options: Handling of lost frames, longest duration of a job, and the clock.
            max_batches: Batches in flight, besides those of the caller.
            max_idle: Files that stay open between two jobs.
            num_threads: Decoding threads.
        """
        self.room = CapacityLimiter(max_batches, clock=options.clock)
        """Batches that are being decoded, or wait for the caller."""
        self._schedule = schedule
        self._decoding = decoding
        self._scheduler = scheduler
        self._num_threads = num_threads
        self._options = options
        self._order = Sequencer()
        self._idle: ResourcePool[tuple[int, int], Decoder[Any]] = ResourcePool(max_idle)
        self._last_frames: dict[tuple[int, int], tuple[int, Any]] = {}
        self._counters: list[DecodeCounters] = []

    @property
    def counters(self) -> DecodeCounters:
        """Cost of decoding so far, over all threads."""
        return sum(tuple(self._counters), DecodeCounters())

    def run(self, first_step: int) -> Generator[CameraStep, None, None]:
        """Yield every batch from `first_step` on, in order, with lost frames marked.

        Raises:
            MediaError: a frame is lost, and `on_error` is "raise".
            StageError: a thread hangs.
        """
        steps = imap(
            self._make_worker,
            self._schedule.iterate(first_step, self.room),
            workers=self._num_threads,
            capacity=1,
            lookahead=_MAX_ITEMS,
            name="cameras",
            stall_seconds=self._options.stall_seconds,
            clock=self._options.clock,
            describe=_describe,
            on_cancel=self._cancel,
        )
        memory = self._schedule.memory
        # Closed from the right: threads are joined before files are closed.
        with closing(memory), closing(self._idle), closing(steps):
            for step in steps:
                if step.errors and not self._options.skips_bad:
                    raise step.errors[0]
                memory.hand_over(step.pixels)
                yield step
                self.room.release(1)

    def _cancel(self) -> None:
        self.room.cancel()
        self._order.cancel()

    def _make_worker(
        self,
    ) -> AbstractContextManager[Callable[[StreamJob | CameraStep], list[CameraStep]]]:
        counters = DecodeCounters()
        self._counters.append(counters)

        def work(item: StreamJob | CameraStep) -> list[CameraStep]:
            if isinstance(item, CameraStep):
                return [item]
            with self._order.turn(item.stream, item.number):
                counters.count(self._decode(item))
            return []

        return nullcontext(work)

    def _decode(self, job: StreamJob) -> DecodeCounters:
        """Write the frames of a job into its batches, and mark those that are lost."""
        steps_of = dict(job.steps)
        last = self._last_frames.pop(job.stream, None)
        if last is not None:
            for step in steps_of.pop(last[0], []):
                step.frame(*job.stream)[...] = last[1]
        decoder = self._idle.acquire(job.stream) or open_any_decoder(
            job.index, job.geometry.shape, self._decoding, scheduler=self._scheduler
        )
        before, stays_open = replace(decoder.counters), False
        try:
            is_complete = True
            for decode_job in stream_jobs(job.index, [*steps_of], job.next_frame):
                out = [steps_of[frame][0].frame(*job.stream) for frame in decode_job.wanted]
                result = run_job(decoder, decode_job, out)
                is_complete &= result.error is None
                _deliver(result, job, out)
                last = decode_job.wanted[-1], out[-1]
            if is_complete and job.keeps_last and last is not None:
                frame, pixels = last
                copied = pixels.clone() if isinstance(pixels, torch.Tensor) else pixels.copy()
                self._last_frames[job.stream] = frame, copied
            stays_open = is_complete and job.goes_on
        finally:
            if stays_open:
                self._idle.release(job.stream, decoder)
            else:
                decoder.close()
        return decoder.counters - before


def _describe(item: StreamJob | CameraStep) -> str:
    if isinstance(item, CameraStep):
        return "a batch"
    first = next(iter(item.steps), 0)
    return f"{len(item.steps)} frames of {item.index.source} (from frame {first})"


def _deliver(result: JobResult, job: StreamJob, frames: Sequence[Any]) -> None:
    """Finish decoded frames and copy them to all batches that show them; mark lost ones, black."""
    for number, pixels in zip(result.wanted, frames, strict=True):
        steps = job.steps[number]
        if number in result.decoded:
            job.geometry.finish(pixels)
            for step in steps[1:]:
                step.frame(*job.stream)[...] = pixels
        elif result.error is not None:
            for step in steps:
                step.is_lost[job.stream] = True
                step.frame(*job.stream)[...] = 0
                step.errors.append(result.error)
