"""Engine of a planned loader: steps in, samples out, each GOP decoded once for a window."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.protocol import DecodeCounters
from headrace.errors import ConfigError, MediaError
from headrace.loaders.epochs import Epochs, RankBatch
from headrace.loaders.job_decoder import Decoded, JobDecoder
from headrace.loaders.loader_options import PlannedOptions
from headrace.planning.lookahead import GopJob, PlannedBatch, look_ahead
from headrace.runtime.imap import imap
from headrace.runtime.synchronization import CapacityLimiter
from headrace.sampling.decode_cost import lookahead_for
from headrace.units import check_integers

_RUN_AHEAD = 0.03
"""Share of the held frames that threads may decode ahead of the plan, so that they do not wait for
each batch to be taken."""

_CODECS_SHARE = 4
"""Codecs are reserved at most a quarter of the budget."""

_FILLED = 0.95
"""Mean share of `later_frames` that is in use. The use varies: above this share, frames are often
refused and decoded again; below it, the window is narrower. Best of 0.85 to 1.1 on the benchmark's
media at 256 MiB and 1 GiB."""
_EPOCHS_AHEAD = 4
"""Epochs that are planned together at most: where all frames fit, each is decoded once in that
many; further ahead, planning would take longer than the decoding it saves."""


@dataclass(frozen=True, kw_only=True)
class LookaheadWindow:
    """Look-ahead and capacities of a loader, in frames of the loader's size."""

    lookahead: int
    """Requests for single frames that are planned together."""
    first: int
    """Requests of the first plan: one batch, so that the first batch does not wait for later
    frames; `lookahead` where the caller gave one."""
    later_frames: int
    """Different frames that may be held for later batches."""
    frames: int
    """Different frames that may be held in all: for the current batch, for later batches, and
    decoded ahead of the plan."""

    @classmethod
    def of(
        cls,
        gop_lengths: NDArray[np.int64],
        *,
        memory_budget: int,
        frame_bytes: int,
        held_bytes: int | None = None,
        codec_bytes: int = 0,
        batch_frames: int,
        each_once: bool = False,
        lookahead: int | None = None,
    ) -> "LookaheadWindow":
        """Return the widest window that the budget allows.

        Two batches, the caller's and the next one, and codecs, up to a quarter of the budget, are
        reserved.

        Args:
            gop_lengths: int64 [GOPs] of all videos.
            memory_budget: Bytes.
            frame_bytes: Bytes of a frame in a batch.
            held_bytes: Bytes of a frame while it waits; None means `frame_bytes`.
            codec_bytes: Bytes that the codecs of all threads need.
            batch_frames: Frames in a batch, those of all its clips.
            each_once: Whether a requested frame is not soon requested again.
            lookahead: Requests planned together; None takes as many as are expected to fit, and
                starts with one batch.

        Raises:
            ConfigError: the budget does not hold three batches, or `lookahead` is below 1.
        """
        check_integers(1, lookahead=lookahead)
        held_bytes = held_bytes or frame_bytes
        reserved = min(codec_bytes, memory_budget // _CODECS_SHARE)
        frames = (memory_budget - reserved - 2 * batch_frames * frame_bytes) // held_bytes
        if frames < batch_frames:
            batches = batch_frames * (2 * frame_bytes + held_bytes)
            needed = min(batches + codec_bytes, batches * _CODECS_SHARE // (_CODECS_SHARE - 1) + 1)
            raise ConfigError(
                f"a memory budget of {_mebibytes(memory_budget)} MiB does not hold three batches "
                f"of {batch_frames} frames of {frame_bytes} bytes (the caller's, the next one, and "
                f"frames decoded for it) and the codecs: {_mebibytes(needed)} MiB are "
                "needed; raise it, or ask for a smaller batch or size"
            )
        later = int((frames - batch_frames) * (1 - _RUN_AHEAD))
        first = lookahead or batch_frames
        if lookahead is None:
            max_requests = _EPOCHS_AHEAD * int(gop_lengths.sum())
            usual = max(1, int(later * _FILLED))
            widest = lookahead_for(gop_lengths, usual, each_once=each_once)
            lookahead = max(batch_frames, min(max_requests, widest))
        return cls(lookahead=lookahead, first=first, later_frames=later, frames=frames)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.{0 if count >= 10 * 2**20 else 3}f}"


_ITEMS_AHEAD = 256
"""Jobs and batches that wait for a thread or the caller; the window bounds memory, not this."""

_Item = GopJob | PlannedBatch
_Output = Decoded | PlannedBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSamples:
    """Pixels of one step, and their frames."""

    step: RankBatch
    frames: NDArray[np.int64]
    """int64 [N], or [N, T]: frame ids, those of the step except for substitutes of bad samples."""
    drawn: NDArray[np.int64]
    """int64 [N]: slot that each sample was drawn for: its own, except for substitutes."""
    pixels: Any
    """uint8 (or uint16) [N, H, W, 3], or [N, T, H, W, 3], in the memory of the run; owned by the
    caller. Black where lost."""
    is_concealed: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is damaged, and shown as FFmpeg shows it."""
    is_lost: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is bad, and the sample is delivered without it; only with
    `on_error="mask"`."""


class Engine:
    """One run through steps; `run` can be called once."""

    def __init__(
        self,
        epochs: Epochs,
        decoder: JobDecoder,
        window: LookaheadWindow,
        options: PlannedOptions,
        *,
        num_threads: int,
    ) -> None:
        self.room = CapacityLimiter(window.frames, clock=options.clock)
        """Capacity in frames: decoded, or being decoded, and not yet delivered."""
        self._epochs = epochs
        self._decoder = decoder
        self._window = window
        # Not the options: their transforms may lead to the loader, and threads hold the engine.
        self._clock, self._stall_seconds = options.clock, options.stall_seconds
        self._skips_bad, self._masks_bad = options.skips_bad, options.masks_bad
        self._num_threads = num_threads
        self._steps: deque[RankBatch] = deque()
        self._held: dict[int, Any] = {}
        self._failed: dict[int, MediaError] = {}
        self._concealed: set[int] = set()

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters, over all threads."""
        return self._decoder.counters

    def run(self, steps: Iterable[RankBatch]) -> Generator[StepSamples, None, None]:
        """Yield the samples of every step, in order, while decoding runs ahead.

        Raises:
            MediaError: a frame that is due is bad, and bad frames are neither skipped nor masked.
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
            describe=self._decoder.describe,
            on_cancel=self.room.cancel,
        )
        decode = self._decoder.worker()
        # Closed from the right: threads are joined, then files are closed.
        with closing(self._decoder), closing(streams), closing(self):
            for output in streams:
                if isinstance(output, Decoded):
                    self._hold(output)
                else:
                    yield self._samples(self._steps.popleft(), decode)
                    self._release(output.released)

    def close(self) -> None:
        """Free the frames that are held."""
        self._held.clear()

    def _worker(self) -> AbstractContextManager[Callable[[_Item], list[_Output]]]:
        decode = self._decoder.worker()
        return nullcontext(lambda item: [decode(item) if isinstance(item, GopJob) else item])

    def _work(self, steps: Iterable[RankBatch]) -> Iterator[_Item]:
        """Yield the jobs of a batch as there is room for them, then the batch itself.

        The batch goes through the threads like a job, so it comes out when all jobs before it are
        done.
        """
        plan = look_ahead(
            self._requests(steps),
            self._decoder.views,
            lookahead=self._window.lookahead,
            capacity=self._window.later_frames,
            first=self._window.first,
        )
        for batch in plan:
            for job in batch.jobs:
                self.room.acquire(len(job.frames))
                yield job
            yield batch

    def _requests(self, steps: Iterable[RankBatch]) -> Iterator[NDArray[np.int64]]:
        for step in steps:
            self._steps.append(step)
            yield self._decoder.views.ids(step, step.frames)

    def _hold(self, decoded: Decoded) -> None:
        self._held.update(decoded.frames)
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
        self._concealed.difference_update(frames)
        for frame in frames:
            if frame in self._held:
                self._decoder.memory.give(self._held.pop(frame))
            else:
                del self._failed[frame]
        self.room.release(len(frames))

    def _samples(self, step: RankBatch, decode: Callable[[GopJob], Decoded]) -> StepSamples:
        ids = self._decoder.views.ids(step, step.frames)
        failed = (view_id for view_id in ids.ravel().tolist() if view_id in self._failed)
        error = None if self._masks_bad else self._failed.get(next(failed, -1))
        if error is not None and not self._skips_bad:
            raise error
        shape = (*step.frames.shape, *self._decoder.size, 3)
        with self._decoder.memory.batch(shape) as pixels:
            return self._fill(step, pixels, None if error is None else decode)

    def _fill(
        self,
        step: RankBatch,
        pixels: Any,
        decode: Callable[[GopJob], Decoded] | None,
    ) -> StepSamples:
        """Write the frames of a step into `pixels`; `decode` substitutes of bad samples, if any."""
        frames, drawn = step.frames, step.drawn
        memory, substitutes = self._decoder.memory, dict[int, Any]()
        if decode is not None:
            frames, drawn, substitutes = self._substitute(step, decode)
        ids = self._decoder.views.ids(step, frames)
        is_lost = np.isin(ids, list(self._failed))
        rows = pixels.reshape(-1, *pixels.shape[-3:])
        for row, view_id, lost in zip(rows, ids.ravel().tolist(), is_lost.ravel(), strict=True):
            if lost:
                row[...] = 0
                continue
            held = self._held if view_id in self._held else substitutes
            memory.write(held[view_id], row)
        for buffer in substitutes.values():
            memory.give(buffer)
        return StepSamples(
            step=step,
            frames=frames,
            drawn=drawn,
            pixels=pixels,
            is_concealed=np.isin(ids, list(self._concealed)),
            is_lost=is_lost,
        )

    def _substitute(
        self, step: RankBatch, decode: Callable[[GopJob], Decoded]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, Any]]:
        """Return the frames of a step without bad samples, their slots, and decoded substitutes.

        Substitutes are in no plan, so this thread decodes them, at once.
        """
        substitutes: dict[int, Any] = {}
        while True:
            frames, drawn = self._epochs.samples(step.epoch, step.slots)
            ids = self._decoder.views.ids(step, frames)
            missing = set(ids.ravel().tolist()) - self._held.keys() - substitutes.keys()
            if not missing:
                return frames, drawn, substitutes
            for batch in look_ahead(
                [np.array(sorted(missing), np.int64)],
                self._decoder.views,
                lookahead=len(missing),
                capacity=0,
            ):
                for job in batch.jobs:
                    decoded = decode(job)
                    substitutes.update(decoded.frames)
                    self._quarantine(decoded)
