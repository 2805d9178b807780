"""The engine of a loader: steps in, samples out, each GOP decoded once for a whole window."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.decode.frame_outputs import Pixels
from headrace.decode.protocol import DecodeCounters
from headrace.errors import MediaError
from headrace.loaders.epochs import Epochs, RankBatch
from headrace.loaders.job_decoder import Decoded, JobDecoder
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.planning.lookahead import GopJob, PlannedBatch, look_ahead
from headrace.runtime.clock import Clock
from headrace.runtime.imap import ordered_streams
from headrace.runtime.synchronization import CapacityLimiter

_ITEMS_AHEAD = 256
"""Jobs and batches on their way; memory is bounded by the window, not by this."""

_Item = GopJob | PlannedBatch
_Output: TypeAlias = Decoded[Pixels] | PlannedBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSamples(Generic[Pixels]):
    """The pixels of one step, and which frames they are."""

    step: RankBatch
    frames: NDArray[np.int64]
    """Frame ids: those of the step, but for samples that turned out to be bad."""
    drawn: NDArray[np.int64]
    """int64 [N]: the slot that each sample was drawn for: its own, but for substitutes."""
    pixels: Pixels
    """uint8 (or uint16) [N, H, W, 3], or [N, T, H, W, 3], in the memory of the run; owned by the
    caller. Black where lost."""
    is_concealed: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is damaged, and shown as FFmpeg shows it."""
    is_lost: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is bad, and the sample is delivered without it; only where bad
    ones are masked."""


class Engine(Generic[Pixels]):
    """One run through steps; it can be run once."""

    def __init__(
        self,
        epochs: Epochs,
        decoder: JobDecoder[Pixels],
        window: LookaheadWindow,
        *,
        workers: int,
        skip_bad: bool,
        masks_bad: bool = False,
        stall_seconds: float | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.room = CapacityLimiter(window.frames, clock=clock)
        """The frames that are held: decoded, or about to be, and not yet delivered."""
        self._epochs = epochs
        self._decoder: JobDecoder[Pixels] = decoder
        self._window = window
        self._workers = workers
        self._skip_bad = skip_bad
        self._masks_bad = masks_bad
        self._stall_seconds = stall_seconds
        self._steps: deque[RankBatch] = deque()
        self._held: dict[int, Pixels] = {}
        self._failed: dict[int, MediaError] = {}
        self._concealed: set[int] = set()

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return self._decoder.counters

    def run(self, steps: Iterable[RankBatch]) -> Generator[StepSamples[Pixels], None, None]:
        """Yield the samples of every step, in order, while decoding runs ahead.

        Raises:
            MediaError: a frame that is due is bad, and bad ones are neither skipped nor masked.
            StageError: a worker hangs.
        """
        streams = ordered_streams(
            self._worker,
            self._work(steps),
            workers=self._workers,
            capacity=1,
            lookahead=_ITEMS_AHEAD,
            name="loader",
            stall_seconds=self._stall_seconds,
            clock=self._clock,
            describe=self._decoder.describe,
            on_cancel=self.room.cancel,
        )
        decode = self._decoder.worker()
        # Left from the right: threads are joined, files closed.
        with closing(self._decoder), closing(streams), closing(self):
            for output in streams:
                if isinstance(output, Decoded):
                    self._hold(output)
                else:
                    yield self._samples(self._steps.popleft(), decode)
                    self._release(output.released)

    def close(self) -> None:
        """Let go of the frames that are held."""
        self._held.clear()

    def _worker(self) -> AbstractContextManager[Callable[[_Item], list[_Output[Pixels]]]]:
        decode = self._decoder.worker()
        return nullcontext(lambda item: [decode(item) if isinstance(item, GopJob) else item])

    def _work(self, steps: Iterable[RankBatch]) -> Iterator[_Item]:
        """Yield the jobs of a batch as there is room for them, then the batch itself.

        It goes through the workers like a job, and so comes out when all before it is done.
        """
        plan = look_ahead(
            self._requests(steps),
            self._decoder.pictures,
            lookahead=self._window.lookahead,
            capacity=self._window.later_frames,
            first=self._window.first,
        )
        for batch in plan:
            for job in batch.jobs:
                self.room.take(len(job.frames))
                yield job
            yield batch

    def _requests(self, steps: Iterable[RankBatch]) -> Iterator[NDArray[np.int64]]:
        for step in steps:
            self._steps.append(step)
            yield self._decoder.pictures.ids(step, step.frames)

    def _hold(self, decoded: Decoded[Pixels]) -> None:
        self._held.update(decoded.frames)
        self._failed.update(decoded.failures)
        self._concealed |= decoded.concealed
        if self._skip_bad or self._masks_bad:
            self._note(decoded)

    def _note(self, decoded: Decoded[Pixels]) -> None:
        """List the frames that could not be decoded."""
        ids = np.array([*decoded.failures], np.int64)
        frames = self._decoder.pictures.frames(ids).tolist()
        for frame, error in zip(frames, decoded.failures.values(), strict=True):
            self._epochs.quarantine.add(frame, error)

    def _release(self, frames: tuple[int, ...]) -> None:
        self._concealed.difference_update(frames)
        for frame in frames:
            if frame in self._held:
                self._decoder.memory.give(self._held.pop(frame))
            else:
                del self._failed[frame]
        self.room.give(len(frames))

    def _samples(
        self, step: RankBatch, decode: Callable[[GopJob], Decoded[Pixels]]
    ) -> StepSamples[Pixels]:
        ids = self._decoder.pictures.ids(step, step.frames)
        failed = next((each for each in ids.ravel().tolist() if each in self._failed), None)
        substitutes = failed is not None and not self._masks_bad
        if failed is not None and substitutes and not self._skip_bad:
            raise self._failed[failed]
        shape = (*step.frames.shape, *self._decoder.size, 3)
        with self._decoder.memory.batch(shape) as pixels:
            return self._filled(step, pixels, decode if substitutes else None)

    def _filled(
        self,
        step: RankBatch,
        pixels: Pixels,
        decode: Callable[[GopJob], Decoded[Pixels]] | None,
    ) -> StepSamples[Pixels]:
        """Write the frames of a step into `pixels`; `decode` what stands in for those that fail."""
        frames, drawn, pictures = step.frames, step.drawn, self._decoder.pictures
        memory, substitutes = self._decoder.memory, dict[int, Pixels]()
        if decode is not None:
            frames, drawn, substitutes = self._substitute(step, decode)
        ids = pictures.ids(step, frames)
        is_lost = np.isin(ids, list(self._failed))
        rows = pixels.reshape(-1, *pixels.shape[-3:])
        for row, each, lost in zip(rows, ids.ravel().tolist(), is_lost.ravel(), strict=True):
            if lost:
                row[...] = 0
            else:
                memory.write(self._held[each] if each in self._held else substitutes[each], row)
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
        self, step: RankBatch, decode: Callable[[GopJob], Decoded[Pixels]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, Pixels]]:
        """Return what the step delivers, and for whom drawn, now that samples are known to be bad.

        Substitutes that nobody had planned for are decoded at once, in this thread.
        """
        found: dict[int, Pixels] = {}
        while True:
            frames, drawn = self._epochs.samples(step.epoch, step.slots)
            ids = self._decoder.pictures.ids(step, frames)
            left = set(ids.ravel().tolist()) - self._held.keys() - found.keys()
            if not left:
                return frames, drawn, found
            for batch in look_ahead(
                [np.array(sorted(left), np.int64)],
                self._decoder.pictures,
                lookahead=len(left),
                capacity=0,
            ):
                for job in batch.jobs:
                    decoded = decode(job)
                    found.update(decoded.frames)
                    self._note(decoded)
