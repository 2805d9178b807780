"""Reader of every frame of many videos, in order, on all cores."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, cast

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Array, Out, StackedOutput, device_memory, finish_work
from headrace.decode.gpu.gpu_decoding import DeviceCounters, DeviceScheduler, device_of
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import LatestDecoder, open_any_decoder, open_index
from headrace.decode.protocol import (
    DecodeCounters,
    DecodeJob,
    Decoder,
    JobResult,
    OnError,
    check_on_error,
    run_job,
)
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import ConfigError, MediaError
from headrace.extraction.frame_batches import (
    FilledPart,
    ReadBudget,
    ReadingTask,
    assemble_batch,
    split_ranges_into_batches,
)
from headrace.loaders.video_set import warn_skipped
from headrace.planning.chunks import split_batches, split_video
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.imap import imap
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.units import check_integers
from headrace.video.frame_format import Fit, FrameFormat, Interpolation
from headrace.video.frames import FrameBatch, FrameLoss
from headrace.video.source import Source, Stream, check_is_list
from headrace.video.stream_index import StreamIndex

_BATCHES_KEPT = 64
"""Max batches with reused memory: zeroing new pages costs as much as converting a 720p frame.
The memory is freed with the reader and the last batch in use."""
_MIN_RANGE_FRAMES = 32
"""Min frames of a GOP range: shorter ranges are not worth a seek, longer ones need more memory for
waiting frames."""

Video = StreamIndex | Source | str | os.PathLike[str]
"""A video, or its index."""


@answers_names
class FrameReader:
    """Reads every frame of its videos, in order: an iterable of `FrameBatch`.

    A batch holds consecutive frames of one video and one size: up to 32 frames; with `batch_size`,
    exactly `batch_size`, except at the end of a video and with damaged frames. GOP ranges are
    decoded in parallel, with one thread and one decoder each, and delivered in the order of the
    videos.

    Frames are arrays on the CPU, for every decoding device. With a `decoding` that keeps frames on
    its device, they are tensors there, and the memory budget applies to that device. They are
    complete for any CUDA stream; call `record_stream` on frames used by a stream other than the
    default. Not tested on a GPU yet; `DecoderConfig(keeps_on_device=True)` uses the same code on
    the CPU.
    """

    losses: list[FrameLoss]
    """Frames and videos left out or concealed so far, in order; bad videos are listed when they are
    opened."""
    threads = 0
    """Decoding threads, known when iteration starts."""

    def __init__(
        self,
        videos: Sequence[Video],
        *,
        size: tuple[int, int] | None = None,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        stride: int = 1,
        batch_size: int | None = None,
        max_batches: int | None = None,
        workers: int | None = None,
        memory_budget: int = 1 << 30,
        on_error: OnError = "raise",
        decoding: DecoderConfig = ON_CPU,
        index_store: IndexStore | None = None,
        spill: str | os.PathLike[str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        marks: Tracer = NO_OP_TRACER,
    ) -> None:
        """Check the arguments; open nothing yet.

        Args:
            videos: Videos in reading order; a `StreamIndex` is not looked up again.
            size: (height, width) of the frames; None: each video's size.
            fit: Rule for another aspect ratio of `size`: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            stride: 1 means every frame.
            batch_size: Frames in a batch. All frames of a video then have one size: `size`, or the
                size of the first frame. None: a change of size starts a new batch.
            max_batches: Max batches, also those left empty by damage; needs a `batch_size`.
            workers: Decoding threads; None: one per usable core, limited by the memory budget.
            memory_budget: Max bytes of decoded frames that wait for delivery, plus one batch.
            on_error: `raise` at the first bad frame, after the good ones; `skip`: bad media is left
                out and listed in `losses`; `conceal`: FFmpeg's concealment, marked and listed.
            decoding: Backend and device.
            index_store: Store of the indexes; None: the user's cache folder.
            spill: Folder of decoded frames on a local disk: see `headrace.open`.
            clock: Clock for decode times.
            marks: Tracer of each decoded part of a batch, if `batch_size` is set.

        Raises:
            ConfigError: an argument is out of range.
        """
        check_on_error(on_error)
        check_integers(
            1, stride=stride, batch_size=batch_size, max_batches=max_batches, workers=workers
        )
        if max_batches is not None and batch_size is None:
            raise ConfigError(f"max_batches={max_batches} needs a batch_size; give both")
        check_is_list(videos)
        self._videos = [v if isinstance(v, StreamIndex) else Source.of(v) for v in videos]
        self._shape = FrameFormat(size=size, fit=fit, interpolation=interpolation)
        self._stride, self._batch_size, self._max_batches = stride, batch_size, max_batches
        self._workers, self._memory_budget = workers, memory_budget
        self._on_error: OnError = on_error
        self._decoding, self._store = DecoderConfig.resolve(decoding), index_store or IndexStore()
        self._spill = open_spill(spill, self._decoding)
        is_auto = self._decoding.is_auto
        self._scheduler = DeviceScheduler(cores=workers, clock=clock) if is_auto else None
        self._clock, self._marks, self._costs, self.losses = clock, marks, [DecodeCounters()], []

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters so far, over all threads."""
        return sum(self._costs, DecodeCounters())

    @property
    def decoded_by(self) -> DeviceCounters | None:
        """Counters of CPU and GPU so far; None unless decoding is `auto`."""
        return None if self._scheduler is None else self._scheduler.decoded_by

    @property
    def frames_planned(self) -> int:
        """Frames to deliver, including damaged ones. Looks up the index of every video."""
        return sum(num_frames for _, _, num_frames in self._wanted(self._indexes([])))

    def __iter__(self) -> Generator[FrameBatch, None, None]:
        """Yield the frames of every video, in order; at the end, warn about skipped videos.

        Raises:
            MediaError: bad media, with `on_error` "raise".
            ConfigError: the memory budget is too small for a batch, or for one frame per worker.
            BackendError: the backend cannot decode a video, or the device is out of memory.
        """
        num_losses, indexes = len(self.losses), self._indexes(self.losses)
        first = next(indexes, None)
        if first is not None:
            limits = ReadBudget.of(
                self._shape.output_size(first[1].info.upright_size),
                batch_size=self._batch_size,
                workers=self._workers,
                budget=self._memory_budget,
            )
            self.threads = limits.workers
            parts = imap(
                self._worker,
                self._plan(chain([first], indexes), limits),
                workers=limits.workers,
                capacity=limits.jobs,
                name="decode",
            )
            self._buffers = BatchBufferPool(_BATCHES_KEPT)
            # Closing joins the threads, also after an early exit or an error.
            with closing(self._buffers), closing(parts):
                yield from self._assemble(parts)
        videos = [loss for loss in self.losses[num_losses:] if loss.index is None]
        warn_skipped(videos, f"{len(videos)} of {len(self._videos)} videos", "losses")

    def _assemble(self, parts: Iterator[FilledPart]) -> Iterator[FrameBatch]:
        parts_of_batch: list[FilledPart] = []
        for part in parts:
            parts_of_batch.append(part)
            error, stop = part.result.error, None
            if self._on_error == "raise" and error is not None and part.result.lost:
                stop = part.result.lost[0]
            else:
                self.losses += part.result.losses()
            if part.is_last or stop is not None:
                batch = assemble_batch(parts_of_batch, stop=stop)
                parts_of_batch = []
                if batch is not None:
                    yield batch
            if stop is not None and error is not None:
                raise error

    def _indexes(self, losses: list[FrameLoss]) -> Iterator[tuple[int, StreamIndex]]:
        for position, video in enumerate(self._videos):
            try:
                if isinstance(video, Source):
                    video = open_index(video, self._store)
                yield position, video
            except MediaError as error:
                if self._on_error == "raise":
                    raise
                losses.append(FrameLoss(source=error.source, index=None, cause=str(error)))

    def _wanted(
        self, indexes: Iterator[tuple[int, StreamIndex]]
    ) -> Iterator[tuple[int, StreamIndex, int]]:
        """Yield (video, index, number of frames to read)."""
        batches = self._max_batches
        for video, index in indexes:
            num_frames = len(range(0, len(index), self._stride))
            if batches is not None and self._batch_size is not None:
                num_frames = min(num_frames, batches * self._batch_size)
                batches -= -(-num_frames // self._batch_size)
            yield video, index, num_frames
            if batches == 0:
                return

    def _plan(
        self, indexes: Iterator[tuple[int, StreamIndex]], limits: ReadBudget
    ) -> Iterator[ReadingTask]:
        """Yield the tasks. One video stays on one thread while other videos keep the other threads
        busy, if memory allows; the last ones are split, so that no thread ends long before others.
        """
        batches = 0
        for video, index, num_frames in self._wanted(indexes):
            is_of_last = len(self._videos) - video < limits.workers
            share = num_frames // 8 if is_of_last else num_frames
            min_frames = max(_MIN_RANGE_FRAMES, min(share, limits.job_frames * limits.jobs))
            ranges = split_video(
                video, index, stride=self._stride, at_least=min_frames, max_frames=num_frames
            )
            if self._batch_size is None:
                sizes = {"batch_size": limits.job_frames, "max_frames": limits.job_frames}
                for gop_range in ranges:
                    [(_, parts)] = split_batches([gop_range], len(gop_range.wanted), **sizes)
                    yield ReadingTask(gop_range=gop_range, parts=parts, shared={})
            else:
                yield from split_ranges_into_batches(
                    ranges,
                    num_frames,
                    batch_size=self._batch_size,
                    max_part_frames=limits.job_frames,
                    first_batch=batches,
                    allocate=partial(self._memory, self._shape_of(index)),
                )
                batches += -(-num_frames // self._batch_size)

    def _shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return the output format of a video's frames: one size if `batch_size` is set."""
        is_free = self._batch_size is None or self._shape.size is not None
        return self._shape if is_free else FrameFormat(size=index.info.upright_size)

    @contextmanager
    def _worker(self) -> Iterator[Callable[[ReadingTask], Iterator[FilledPart]]]:
        """Yield the function of a thread; it keeps a decoder open for GOP ranges of one video."""
        with closing(LatestDecoder(self._open)) as latest:
            yield lambda task: self._decode(latest.of(task.gop_range.index), task)

    def _open(self, index: StreamIndex) -> Decoder[Array]:
        decoder = open_any_decoder(
            index,
            self._shape_of(index),
            self._decoding,
            scheduler=self._scheduler,
            spill=self._spill,
        )
        self._costs.append(decoder.counters)
        return decoder

    def _memory(self, shape: FrameFormat, num_frames: int) -> Array:
        """Return memory for a batch."""
        assert shape.size is not None
        return self._take((num_frames, *shape.array_shape(shape.size)))

    def _take(self, shape: tuple[int, ...]) -> Array:
        """Return uninitialized memory; arrays are reused when no caller holds a reference."""
        if self._decoding.keeps_on_device:
            memory: Any = device_memory(shape, device_of(self._decoding))
            return cast(Array, memory)
        return self._buffers.acquire(shape)

    def _decode(self, decoder: Decoder[Array], task: ReadingTask) -> Iterator[FilledPart]:
        conceals = self._on_error == "conceal"
        video, batch_number = task.gop_range.video, -1
        batch: Array | None = None
        for part in task.parts:
            # The frames after a task may belong to another thread.
            goes_on = self.threads == 1 or part is not task.parts[-1]
            job = DecodeJob(part.wanted, goes_on=goes_on, conceals=conceals)
            if self._batch_size is None:
                yield from self._fill_by_size(decoder, video, job)
                continue
            if batch is None or part.batch != batch_number:
                batch_number, shared = part.batch, task.shared.get(part.batch)
                if shared is None:
                    shared = self._memory(decoder.shape, part.batch_frames)
                batch = shared
            with self._marks.range("decode", part.batch):
                result, seconds = self._run_job(decoder, job, batch[part.first : part.stop])
            yield FilledPart(
                video=video, result=result, batch=batch, is_last=part.is_last, seconds=seconds
            )

    def _fill_by_size(
        self, decoder: Decoder[Array], video: int, job: DecodeJob
    ) -> Iterator[FilledPart]:
        """Decode a job into a separate batch; a change of frame size starts another batch."""
        wanted = job.wanted
        while wanted:
            stack: StackedOutput[Array] = StackedOutput(len(wanted), self._take)
            result, seconds = self._run_job(decoder, replace(job, wanted=wanted), stack)
            # Frames from the first one of another size belong to a later batch.
            stop = min((k for k in stack.misfits if k), default=len(wanted))
            yield FilledPart(
                video=video,
                result=replace(result, wanted=wanted[:stop]),
                batch=stack.frames[:stop] if result.decoded else None,
                is_last=True,
                seconds=seconds,
            )
            wanted = wanted[stop:]

    def _run_job(
        self, decoder: Decoder[Array], job: DecodeJob, out: Out[Array]
    ) -> tuple[JobResult, float]:
        """Run a job; return its result and seconds, which include pending work of the device."""
        began_ns = self._clock.now_ns()
        result = run_job(decoder, job, out)
        if self._decoding.keeps_on_device:
            finish_work(device_of(self._decoding))
        return result, (self._clock.now_ns() - began_ns) / 1e9


@answers_names
def read_frames(
    videos: Sequence[Source | str | os.PathLike[str]],
    *,
    size: tuple[int, int] | None = None,
    fit: Fit = "stretch",
    interpolation: Interpolation = "area",
    stride: int = 1,
    workers: int | None = None,
    on_error: OnError = "raise",
    decoding: DecoderConfig = ON_CPU,
    stream: Stream | None = None,
    spill: str | os.PathLike[str] | None = None,
) -> FrameReader:
    """Return an iterable of every frame of `videos`, in order: see `FrameReader`.

        for batch in read_frames(["a.mp4", "b.mp4"], size=(256, 256)): ...

    `stream` selects the video stream of each file, as in `headrace.open`. `decoding` sets backend
    and device; with `keeps_on_device=True`, frames are tensors on the device. `spill` is a folder
    of decoded frames, as in `headrace.open`.
    """
    return FrameReader(
        videos if stream is None else [Source.of(video, stream) for video in videos],
        size=size,
        fit=fit,
        interpolation=interpolation,
        stride=stride,
        workers=workers,
        on_error=on_error,
        decoding=decoding,
        spill=spill,
    )
