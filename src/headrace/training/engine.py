"""The engine of a loader: steps in, samples out, each GOP decoded once for a whole window."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.decode.protocol import DecodeCounters
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.errors import MediaError
from headrace.planning.lookahead import GopJob, PlannedBatch, look_ahead
from headrace.runtime.clock import Clock
from headrace.runtime.memory import BatchBuffers
from headrace.runtime.ordered import ordered_streams
from headrace.runtime.room import Room
from headrace.training.decoding import Decoded, JobDecoder
from headrace.training.epochs import Epochs, Step
from headrace.training.window import Window

_ITEMS_AHEAD = 256
"""Jobs and batches on their way; memory is bounded by the window, not by this."""

_BATCHES = 2
"""That the budget sets aside: the one the caller has, and the next one."""

_Item = GopJob | PlannedBatch
_Output = Decoded | PlannedBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """The pixels of one step, and which frames they are."""

    step: Step
    frames: NDArray[np.int64]
    """Frame ids: those of the step, but for samples that turned out to be bad."""
    drawn: NDArray[np.int64]
    """int64 [N]: the slot that each sample was drawn for: its own, but for substitutes."""
    pixels: NDArray[np.uint8]
    """uint8 [N, H, W, 3], or [N, T, H, W, 3]; owned by the caller."""
    is_concealed: NDArray[np.bool_]
    """bool [N], or [N, T]: the frame is damaged, and shown as FFmpeg shows it."""


class Engine:
    """One run through steps; it can be run once."""

    def __init__(
        self,
        epochs: Epochs,
        decoder: JobDecoder,
        window: Window,
        *,
        workers: int,
        skip_bad: bool,
        stall_seconds: float | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.room = Room(window.frames, clock=clock)
        """The frames that are held: decoded, or about to be, and not yet delivered."""
        self._epochs = epochs
        self._decoder = decoder
        self._window = window
        self._workers = workers
        self._skip_bad = skip_bad
        self._stall_seconds = stall_seconds
        self._unpacker = Yuv420Unpacker()
        self._steps: deque[Step] = deque()
        self._held: dict[int, NDArray[np.uint8]] = {}
        self._batches = BatchBuffers(_BATCHES)
        self._failed: dict[int, MediaError] = {}
        self._concealed: set[int] = set()

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return self._decoder.counters

    def run(self, steps: Iterable[Step]) -> Generator[Samples, None, None]:
        """Yield the samples of every step, in order, while decoding runs ahead.

        Raises:
            MediaError: a frame that is due is bad, and bad ones are not to be skipped.
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
        """Let go of the frames that are held, and of memory for batches."""
        self._held.clear()
        self._batches.close()

    def _worker(self) -> AbstractContextManager[Callable[[_Item], list[_Output]]]:
        decode = self._decoder.worker()
        return nullcontext(lambda item: [decode(item) if isinstance(item, GopJob) else item])

    def _work(self, steps: Iterable[Step]) -> Iterator[_Item]:
        """Yield the jobs of a batch as there is room for them, then the batch itself.

        It goes through the workers like a job, and so comes out when all before it is done.
        """
        plan = look_ahead(
            self._requests(steps),
            self._epochs.population,
            lookahead=self._window.lookahead,
            capacity=self._window.later_frames,
            first=self._window.first,
        )
        for batch in plan:
            for job in batch.jobs:
                self.room.take(len(job.frames))
                yield job
            yield batch

    def _requests(self, steps: Iterable[Step]) -> Iterator[NDArray[np.int64]]:
        for step in steps:
            self._steps.append(step)
            yield step.frames

    def _hold(self, decoded: Decoded) -> None:
        self._held.update(decoded.frames)
        self._failed.update(decoded.failures)
        self._concealed |= decoded.concealed
        if self._skip_bad:
            for frame, error in decoded.failures.items():
                self._epochs.quarantine.add(frame, error)

    def _release(self, frames: tuple[int, ...]) -> None:
        self._concealed.difference_update(frames)
        for frame in frames:
            if frame in self._held:
                self._decoder.buffers.give(self._held.pop(frame))
            else:
                del self._failed[frame]
        self.room.give(len(frames))

    def _samples(self, step: Step, decode: Callable[[GopJob], Decoded]) -> Samples:
        frames, drawn = step.frames, step.drawn
        substitutes: dict[int, NDArray[np.uint8]] = {}
        failed = next((each for each in frames.ravel().tolist() if each in self._failed), None)
        if failed is not None:
            if not self._skip_bad:
                raise self._failed[failed]
            frames, drawn, substitutes = self._substitute(step, decode)
        shape = (*self._decoder.size, 3)
        pixels = self._batches.take((*frames.shape, *shape))
        for row, frame in zip(pixels.reshape(-1, *shape), frames.ravel().tolist(), strict=True):
            held = self._held[frame] if frame in self._held else substitutes[frame]
            if self._decoder.shape.layout == "yuv420":
                self._unpacker.unpack(held, row)
            else:
                row[...] = held
        for buffer in substitutes.values():
            self._decoder.buffers.give(buffer)
        concealed = np.isin(frames, list(self._concealed))
        return Samples(step=step, frames=frames, drawn=drawn, pixels=pixels, is_concealed=concealed)

    def _substitute(
        self, step: Step, decode: Callable[[GopJob], Decoded]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, NDArray[np.uint8]]]:
        """Return what the step delivers, and for whom drawn, now that samples are known to be bad.

        Substitutes that nobody had planned for are decoded at once, in this thread.
        """
        found: dict[int, NDArray[np.uint8]] = {}
        while True:
            frames, drawn = self._epochs.samples(step.epoch, step.slots)
            left = set(frames.ravel().tolist()) - self._held.keys() - found.keys()
            if not left:
                return frames, drawn, found
            for batch in look_ahead(
                [np.array(sorted(left), np.int64)],
                self._epochs.population,
                lookahead=len(left),
                capacity=0,
            ):
                for job in batch.jobs:
                    decoded = decode(job)
                    found.update(decoded.frames)
                    for frame, error in decoded.failures.items():
                        self._epochs.quarantine.add(frame, error)
