"""AutoDecoder: each job on the GPU or on the CPU, whichever ends it sooner; frames are the same."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Generic

from headrace.decode.device_scheduler import CPU, DeviceScheduler, ScheduledJob
from headrace.decode.frame_outputs import Out, Pixels
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import BackendError, MediaError
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


@dataclass(kw_only=True)
class _Work:
    """A job on one way, as far as it came."""

    frames: int = 0
    """Delivered."""
    is_whole: bool = False


@dataclass(frozen=True, kw_only=True)
class _Trouble:
    """What the GPU did not do."""

    error: BackendError | None = None
    missing: int | None = None
    """The first frame that it passed over. The CPU tells whether the file is damaged there."""


class AutoDecoder(Generic[Pixels]):
    """A decoder of one stream that has another for each way: a `Decoder`. Not thread-safe.

    The first job is sent a way, and those behind it go the same, as they may read on; after `rest`
    the next is sent anew. What the GPU does not do is done on the CPU, from the beginning of that
    job, and no frame is delivered twice; the file then stays on the CPU.
    """

    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat | None,
        chooser: DeviceScheduler,
        open_on: Callable[[str], Decoder[Pixels]],
    ) -> None:
        """Open nothing yet.

        Args:
            index: The frames there are.
            shape: What they are made into.
            chooser: Sends the jobs.
            open_on: Makes a decoder of a way, `cpu` or as in `cuda:0`. A BackendError of it says
                why there is none.
        """
        self.index = index
        """The frames there are."""
        self.shape = shape or FrameFormat()
        """What each frame is made into."""
        self._chooser = chooser
        self._open_on: Callable[[str], Decoder[Pixels]] = open_on
        self.counters = DecodeCounters()
        """What decoding cost so far, on all ways."""
        self._decoders: dict[str, Decoder[Pixels]] = {CPU: open_on(CPU)}
        self._concealed: frozenset[int] = frozenset()
        self._sent: ScheduledJob | None = None

    @property
    def concealed(self) -> frozenset[int]:
        """Indices of those frames of the last job that are damaged and were delivered anyway."""
        return self._concealed

    @property
    def chooser(self) -> DeviceScheduler:
        """What sends the jobs, and tells what became of them."""
        return self._chooser

    def run(self, job: DecodeJob, out: Out[Pixels] | None = None) -> Iterator[tuple[int, Pixels]]:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`.

        Where a GPU fails in the middle, frames that it wrote to `out` are written there once more.
        """
        self._concealed = frozenset()
        if self._sent is None:
            self._sent = self._send(job)
        came: set[int] = set()
        trouble: _Trouble | None = None
        if self._sent.way != CPU:
            trouble = yield from self._on_gpu(self._sent, job, out, came)
            if trouble is None:
                return
            self.rest()
            if trouble.error is not None:
                self._chooser.fail(self._name, trouble.error)
            self._sent = self._send(job, by_cpu=True)
        yield from self._on_cpu(self._sent, job, out, came, trouble)

    def rest(self) -> None:
        """Release what decoding needs and a file that lies still does not; it may be run again."""
        self._forget()
        for decoder in self._decoders.values():
            decoder.rest()

    def close(self) -> None:
        """Release the file and the codecs; the decoder cannot be used again."""
        self._forget()
        for decoder in self._decoders.values():
            decoder.close()

    @property
    def _name(self) -> str:
        return str(self.index.source)

    def _send(self, job: DecodeJob, *, by_cpu: bool = False) -> ScheduledJob:
        """Return where a job goes. One that others may follow stands for the rest of the file."""
        index = self.index
        first, _ = index.gop_range(index.gop_of(job.wanted[0]))
        stop = len(index) if job.goes_on else job.wanted[-1] + 1
        ways = (CPU,) if by_cpu else self._ways()
        return self._chooser.send(index.info.codec, (stop - first) * self._megapixels, ways)

    def _ways(self) -> tuple[str, ...]:
        """Return which ways the file can be decoded."""
        gpu = self._chooser.gpu
        if gpu is None or not self._chooser.may_use_gpu(self._name):
            return (CPU,)
        if gpu not in self._decoders:
            try:
                self._decoders[gpu] = self._open_on(gpu)
            except BackendError as error:
                self._chooser.refuse(self._name, error)
                return (CPU,)
        return CPU, gpu

    @property
    def _megapixels(self) -> float:
        """Of a frame, as it is stored."""
        return self.index.info.height * self.index.info.width / 1e6

    def _on_gpu(
        self, sent: ScheduledJob, job: DecodeJob, out: Out[Pixels] | None, came: set[int]
    ) -> Generator[tuple[int, Pixels], None, _Trouble | None]:
        """Yield what the GPU delivers, up to where it passes over a frame; note it in `came`."""
        is_damaged, left = self.index.verdicts.is_damaged, deque(job.wanted)
        work = _Work()
        with closing(self._working(sent, job, out, work)) as frames:
            try:
                for number, pixels in frames:
                    while left and left[0] <= number:
                        passed = left.popleft()
                        if passed < number and not is_damaged(passed):
                            return _Trouble(missing=passed)
                    came.add(number)
                    work.frames += 1
                    yield number, pixels
            except BackendError as error:
                return _Trouble(error=error)
        return None

    def _on_cpu(
        self,
        sent: ScheduledJob,
        job: DecodeJob,
        out: Out[Pixels] | None,
        came: set[int],
        trouble: _Trouble | None,
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield what did not come yet. What the GPU passed over and is found was its fault."""
        missing = None if trouble is None else trouble.missing
        work = _Work()
        with closing(self._working(sent, job, out, work)) as frames:
            for number, pixels in frames:
                if number == missing and number not in self._decoders[CPU].concealed:
                    error = f"the GPU gave no frame {number} of it, which the CPU decodes"
                    self._chooser.fail(self._name, error)
                if number not in came:
                    work.frames += 1
                    yield number, pixels

    def _working(
        self, sent: ScheduledJob, job: DecodeJob, out: Out[Pixels] | None, work: _Work
    ) -> Generator[tuple[int, Pixels], None, None]:
        """Yield what the decoder of a way gives, and tell the chooser what it took."""
        decoder, clock = self._decoders[sent.way], self._chooser.clock
        before, spent_ns = replace(decoder.counters), 0
        try:
            with self._chooser.place(sent):
                frames = decoder.run(job, out)
                while True:
                    began_ns = clock.now_ns()
                    try:
                        found = next(frames, None)
                    finally:
                        spent_ns += clock.now_ns() - began_ns
                    if found is None:
                        break
                    yield found
                work.is_whole = True
        except MediaError:
            work.is_whole = True  # as whole as the file is
            raise
        finally:
            cost = decoder.counters - before
            self.counters.count(cost)
            self._concealed = decoder.concealed
            self._chooser.done(
                sent,
                frames=work.frames,
                megapixels=cost.frames_decoded * self._megapixels,
                spent_ns=spent_ns,
                is_whole=work.is_whole,
            )

    def _forget(self) -> None:
        if self._sent is not None:
            self._chooser.forget(self._sent)
            self._sent = None
